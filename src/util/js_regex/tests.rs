use proptest::prelude::*;

use super::Pattern;

fn matches(source: &str, flags: &str, text: &str) -> bool {
    Pattern::new(source, flags).unwrap().is_match(text).unwrap()
}

/// The result of a crate that knows the dialect and has no limit.
fn oracle(source: &str, flags: &str, text: &str) -> Option<bool> {
    let regex = regress::Regex::with_flags(source, flags).ok()?;
    let units: Vec<u16> = text.encode_utf16().collect();
    Some(if flags.contains('u') {
        regex.find_from_utf16(&units, 0).next().is_some()
    } else {
        regex.find_from_ucs2(&units, 0).next().is_some()
    })
}

#[test]
fn patterns_match_as_in_javascript() {
    // Each as in JavaScript: `new RegExp(source, flags).test(text)`.
    for (source, flags, text, expected) in [
        (r"^\d+$", "", "123", true),
        (r"^\d+$", "", "١٢٣", false),
        (r"^\w+$", "", "naïve", false),
        (r"^\s$", "", "\u{feff}", true),
        (r"^\s$", "", "\u{85}", false),
        (r"a.c", "", "a\u{2028}c", false),
        (r"a.c", "s", "a\nc", true),
        (r"^b", "m", "a\rb", true),
        (r"a$", "", "a\n", false),
        (r"a$", "m", "a\nb", true),
        (r"^(?=.*\d)(?=.*[a-z]).{4,8}$", "", "abc123", true),
        (r"^(?!.*sorry)", "i", "I am Sorry", false),
        (r"(?<=\$)\d+(?:\.\d\d)?", "", "cost: $42.50", true),
        (r"(?<!\$)\b\d+", "", "$42", false),
        (r"(?<year>\d{4})-\k<year>", "", "2024-2024", true),
        (r"(a)|b\1c", "", "bc", true),
        (r"(?:(a)|b)*\1", "", "ab", true),
        (r"^(?:(a)|(b))+\1$", "", "aba", false),
        (r"^.$", "", "😀", false),
        (r"^.$", "u", "😀", true),
        (r"^😀{2}$", "", "😀😀", false),
        (r"\u{1F600}", "u", "😀", true),
        (r"^u{3}$", "", "uuu", true),
        (r"\ud83d\ude00", "", "😀", true),
        (r"a{,3}", "", "a{,3}", true),
        (r"x{1", "", "x{1", true),
        (r"[^]", "", "\n", true),
        (r"[]", "", "a", false),
        (r"[\d-z]", "", "-", true),
        (r"\p{Lu}", "u", "é", false),
        (r"\p{Script=Greek}", "u", "λ", true),
        (r"\p{Lu}", "", "p{Lu}", true),
        (r"straße", "i", "STRASSE", false),
        (r"k", "i", "\u{212a}", false),
        (r"k", "iu", "\u{212a}", true),
        (r"ÀÉ", "i", "àé", true),
        (r"[à-ï]", "i", "É", true),
        (r"\0", "", "\0", true),
        (r"\101", "", "A", true),
        (r"\cJ", "", "\n", true),
        (r"[\b]", "", "\u{8}", true),
        (r"", "", "", true),
        (r"a*?$", "", "aaa", true),
        (r"(?=(a+))a*b\1", "", "baaabac", true),
        (r"(z)((a+)?(b+)?(c))*", "", "zaacbbbcac", true),
        (r"b", "y", "ab", false),
        (r"\/", "", "/", true),
        (r"(?:a*)*$", "", "aaab", true),
    ] {
        assert_eq!(matches(source, flags, text), expected, "/{source}/{flags} on {text:?}");
        // The crate reads a pair of escapes as one character.
        if !flags.contains('y') && !source.contains("ud83d") {
            assert_eq!(
                oracle(source, flags, text),
                Some(expected),
                "the oracle: /{source}/{flags} on {text:?}"
            );
        }
    }
}

#[test]
fn invalid_patterns_are_errors() {
    let mut told = Vec::new();
    for (source, flags) in [
        ("(", ""),
        (")", ""),
        ("[a", ""),
        ("*a", ""),
        ("a**", ""),
        ("a{2,1}", ""),
        ("(?i)a", ""),
        ("(?<n>a)(?<n>b)", ""),
        (r"(?<n>a)\k<m>", ""),
        (r"\", ""),
        ("[z-a]", ""),
        ("a{2", "u"),
        (r"\p{Nonsense}", "u"),
        (r"\-", "u"),
        ("a", "x"),
        ("a", "ii"),
        ("(?:(?:abcd){999}){999}", ""),
    ] {
        let error = Pattern::new(source, flags).unwrap_err();
        told.push(format!("/{source}/{flags}: {error}"));
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    /(/: a `(` without its `)`
    /)/: a `)` without its `(`
    /[a/: a `[` without its `]`
    /*a/: nothing to repeat before `*`
    /a**/: nothing to repeat before `*`
    /a{2,1}/: the numbers of a quantifier are out of order
    /(?i)a/: unknown kind of group: `(?` needs `:`, `=`, `!`, `<=`, `<!` or `<name>`
    /(?<n>a)(?<n>b)/: two groups are named `n`
    /(?<n>a)\k<m>/: no group is named `m`
    /\/: a `\` at the end
    /[z-a]/: a range of characters is out of order
    /a{2/u: a `{` that repeats nothing
    /\p{Nonsense}/u: unknown property `Nonsense` of characters
    /\-/u: unknown escape `\-`
    /a/x: unknown flag `x`, expected `d`, `g`, `i`, `m`, `s`, `u` or `y`
    /a/ii: the flag `i` is there twice
    /(?:(?:abcd){999}){999}/: the pattern is too large: a repetition of repetitions multiplies it
    ");
    assert!(Pattern::new(&"(".repeat(10_000), "").is_err());
}

#[test]
fn a_match_that_never_terminates_is_stopped() {
    let slow = Pattern::new(r"^(\w+\s?)*$", "").unwrap();
    assert!(slow.is_match(&"word ".repeat(5)).unwrap());
    let error = slow.is_match(&format!("{}!", "a".repeat(5000))).unwrap_err();
    insta::assert_snapshot!(error, @"the pattern takes more than 10200040 steps on this text");
    let quadratic = Pattern::new(r"(?=.*x).*y", "").unwrap();
    assert!(quadratic.is_match(&"a".repeat(1_000_000)).is_err());
    let nested = Pattern::new(r"(?:a|a)*b", "").unwrap();
    assert!(nested.is_match(&"a".repeat(100_000)).is_err());
}

#[test]
fn a_long_text_is_matched() {
    let text = format!("{}needle", "hay ".repeat(2_500_000));
    assert!(matches("needle$", "", &text));
    assert!(matches("^.*needle", "", &text));
    assert!(!matches(r"\bnot there\b", "i", &text));
    assert!(matches(r"^(?:hay )+needle$", "", &text[text.len() - 400_006..]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_oracle_agrees(
        source in prop::collection::vec(prop::sample::select(vec![
            "a", "b", "c", ".", "^", "$", "*", "+", "?", "*?", "{2}", "{0,2}", "|", "(", ")", "(?:", "(?=", "(?!", "(?<=", "(?<!",
            "[ab]", "[^a]", r"\b", r"\B", r"\d", r"\w", r"\S", r"\1", r"\2", "é", "É", "😀", "\\n",
        ]), 1..9),
        flags in prop::sample::select(vec!["", "i", "m", "s", "u", "iu"]),
        text in prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "A", "É", "é", "1", " ", "\n", "😀"]), 0..8),
    ) {
        // The crate allows quantifiers after assertions, JavaScript does not.
        let repeats = |sign: &str| sign.starts_with(['*', '+', '?', '{']);
        prop_assume!(!source.windows(2).any(|two| matches!(two[0], r"\b" | r"\B" | "^" | "$") && repeats(two[1])));
        let source = source.concat();
        // It does not treat a surrogate pair in a pattern as two characters, either.
        prop_assume!(flags.contains('u') || !source.contains('😀'));
        let text = text.concat();
        let ours = Pattern::new(&source, flags);
        match oracle(&source, flags, &text) {
            Some(expected) => {
                let ours = ours.map_err(|error| TestCaseError::fail(format!("/{source}/{flags}: {error}")))?;
                prop_assert_eq!(ours.is_match(&text), Ok(expected), "/{}/{} on {:?}", source, flags, text);
            }
            None => prop_assert!(ours.is_err(), "/{source}/{flags} is not a pattern"),
        }
    }
}
