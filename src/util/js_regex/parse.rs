//! Parses a pattern into a tree. Without the flag `u`, the lenient syntax of browsers applies.

use std::collections::HashMap;
use std::ops::Range;

use super::class::Class;
use super::{Flags, InvalidPattern, units};

/// Limit of nested groups, so that no pattern overflows the stack.
const DEEPEST: usize = 200;

/// A node of the syntax tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// Matches the empty text.
    Empty,
    Char(u32),
    /// `.`.
    Any,
    Class(Class),
    /// `^`.
    Start,
    /// `$`.
    End,
    /// `\b`, or `\B` if negated.
    Boundary {
        negated: bool,
    },
    /// A capturing group, numbered from 1.
    Group(Box<Self>, usize),
    Sequence(Vec<Self>),
    /// Alternatives, in order of preference.
    Either(Vec<Self>),
    /// A quantifier. Each iteration resets the captures of `groups`.
    Repeat {
        node: Box<Self>,
        min: u32,
        max: Option<u32>,
        greedy: bool,
        groups: Range<usize>,
    },
    /// A lookahead or lookbehind.
    Look {
        node: Box<Self>,
        ahead: bool,
        negated: bool,
    },
    /// A backreference.
    Back(usize),
}

/// A syntax tree and its number of groups.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) node: Node,
    pub(super) groups: usize,
}

/// Parser state.
pub(super) struct Parser {
    pub(super) units: Vec<u32>,
    pub(super) at: usize,
    pub(super) unicode: bool,
    /// Whether case folding follows Unicode: the flags `iu`.
    pub(super) folds: bool,
    groups: usize,
    all_groups: usize,
    names: HashMap<String, usize>,
    /// `\k<name>` references, which may precede their group.
    named_back: Vec<String>,
    depth: usize,
}

pub(super) fn parse(source: &str, flags: Flags) -> Result<Parsed, InvalidPattern> {
    let units = units(source, flags.unicode);
    let (all_groups, names) = scan_groups(&units)?;
    let mut parser = Parser {
        units,
        at: 0,
        unicode: flags.unicode,
        folds: flags.unicode && flags.ignore_case,
        groups: 0,
        all_groups,
        names,
        named_back: Vec::new(),
        depth: 0,
    };
    let node = parser.alternatives()?;
    if parser.peek().is_some() {
        return Err(InvalidPattern::new("a `)` without its `(`"));
    }
    if let Some(name) = parser.named_back.iter().find(|name| !parser.names.contains_key(*name)) {
        return Err(InvalidPattern::new(format!("no group is named `{name}`")));
    }
    Ok(Parsed { node, groups: parser.groups })
}

/// Counts the groups and numbers the named ones. Whether `\2` is a backreference depends on it.
fn scan_groups(units: &[u32]) -> Result<(usize, HashMap<String, usize>), InvalidPattern> {
    let is = |at: usize, c: char| units.get(at) == Some(&u32::from(c));
    let (mut count, mut names, mut at, mut in_class) = (0, HashMap::new(), 0, false);
    while at < units.len() {
        if is(at, '\\') {
            at += 1;
        } else if in_class {
            in_class = !is(at, ']');
        } else if is(at, '[') {
            in_class = true;
        } else if is(at, '(') && !is(at + 1, '?') {
            count += 1;
        } else if is(at, '(') && is(at + 2, '<') && !is(at + 3, '=') && !is(at + 3, '!') {
            count += 1;
            let end = units[at + 3..].iter().position(|unit| *unit == u32::from('>'));
            let end = end.ok_or_else(|| InvalidPattern::new("a group's name does not end with `>`"))?;
            let name = text(&units[at + 3..at + 3 + end]);
            let legal = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            if name.is_empty() || !name.chars().all(legal) || name.starts_with(|c: char| c.is_numeric()) {
                return Err(InvalidPattern::new(format!("`{name}` cannot be the name of a group")));
            }
            if names.insert(name.clone(), count).is_some() {
                return Err(InvalidPattern::new(format!("two groups are named `{name}`")));
            }
        }
        at += 1;
    }
    Ok((count, names))
}

pub(super) fn text(units: &[u32]) -> String {
    let narrow = |unit: &u32| u16::try_from(*unit).ok();
    match units.iter().map(narrow).collect::<Option<Vec<u16>>>() {
        Some(units) => String::from_utf16_lossy(&units),
        None => units.iter().filter_map(|unit| char::from_u32(*unit)).collect(),
    }
}

impl Parser {
    pub(super) fn peek(&self) -> Option<char> {
        // A lone surrogate is never a syntax character.
        self.units.get(self.at).map(|unit| char::from_u32(*unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    pub(super) fn next_unit(&mut self) -> Option<u32> {
        let unit = self.units.get(self.at).copied();
        self.at += usize::from(unit.is_some());
        unit
    }

    pub(super) fn eat(&mut self, c: char) -> bool {
        let is = self.peek() == Some(c);
        self.at += usize::from(is);
        is
    }

    pub(super) fn eat_all(&mut self, text: &str) -> bool {
        let before = self.at;
        let all = text.chars().all(|c| self.eat(c));
        if !all {
            self.at = before;
        }
        all
    }

    fn alternatives(&mut self) -> Result<Node, InvalidPattern> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(InvalidPattern::new(format!("groups are nested more than {DEEPEST} levels deep")));
        }
        let mut all = vec![self.sequence()?];
        while self.eat('|') {
            all.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(if all.len() == 1 { all.swap_remove(0) } else { Node::Either(all) })
    }

    fn sequence(&mut self) -> Result<Node, InvalidPattern> {
        let mut nodes = Vec::new();
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            let first_group = self.groups + 1;
            let node = self.term()?;
            let node = self.quantified(node, first_group)?;
            nodes.push(node);
        }
        Ok(match nodes.len() {
            0 => Node::Empty,
            1 => nodes.swap_remove(0),
            _ => Node::Sequence(nodes),
        })
    }

    fn term(&mut self) -> Result<Node, InvalidPattern> {
        let start = self.at;
        let Some(unit) = self.next_unit() else { return Ok(Node::Empty) };
        Ok(match char::from_u32(unit) {
            Some('^') => Node::Start,
            Some('$') => Node::End,
            Some('.') => Node::Any,
            Some('(') => self.group()?,
            Some('[') => Node::Class(self.class()?),
            Some('\\') => self.escape()?,
            Some(c @ ('*' | '+' | '?')) => {
                return Err(InvalidPattern::new(format!("nothing to repeat before `{c}`")));
            }
            Some('{') if self.unicode => return Err(InvalidPattern::new("a `{` that repeats nothing")),
            Some('{') => {
                self.at = start;
                if self.braces().is_some() {
                    return Err(InvalidPattern::new("nothing to repeat before `{`"));
                }
                self.at = start + 1;
                Node::Char(unit)
            }
            Some(c @ ('}' | ']')) if self.unicode => {
                return Err(InvalidPattern::new(format!("a `{c}` without its opening bracket")));
            }
            _ => Node::Char(unit),
        })
    }

    fn quantified(&mut self, node: Node, first_group: usize) -> Result<Node, InvalidPattern> {
        let (min, max) = if self.eat('*') {
            (0, None)
        } else if self.eat('+') {
            (1, None)
        } else if self.eat('?') {
            (0, Some(1))
        } else if let Some(found) = self.braces() {
            found
        } else {
            return Ok(node);
        };
        let repeatable = match &node {
            Node::Start | Node::End | Node::Boundary { .. } => false,
            Node::Look { ahead, .. } => *ahead && !self.unicode,
            _ => true,
        };
        if !repeatable {
            return Err(InvalidPattern::new("nothing to repeat before a quantifier"));
        }
        if max.is_some_and(|max| max < min) {
            return Err(InvalidPattern::new("the numbers of a quantifier are out of order"));
        }
        let greedy = !self.eat('?');
        Ok(Node::Repeat { node: Box::new(node), min, max, greedy, groups: first_group..self.groups + 1 })
    }

    /// `{2}`, `{2,}` or `{2,5}`; anything else is literal.
    fn braces(&mut self) -> Option<(u32, Option<u32>)> {
        let before = self.at;
        let read = |this: &mut Self| {
            if !this.eat('{') {
                return None;
            }
            let min = this.number()?;
            let max = if this.eat(',') { this.number() } else { Some(min) };
            this.eat('}').then_some((min, max))
        };
        let found = read(self);
        if found.is_none() {
            self.at = before;
        }
        found
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = None;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            self.at += 1;
            number = Some(number.unwrap_or(0_u32).saturating_mul(10).saturating_add(digit));
        }
        number
    }

    fn group(&mut self) -> Result<Node, InvalidPattern> {
        let node = if self.eat_all("?:") {
            // Wrapped in a group, because a node that cannot be quantified can be in a group that is.
            Node::Sequence(vec![self.alternatives()?])
        } else if let Some((ahead, negated)) = self.look() {
            Node::Look { node: Box::new(self.alternatives()?), ahead, negated }
        } else {
            if self.eat_all("?<") {
                // `scan_groups` has read the name.
                while self.next_unit().is_some_and(|unit| unit != u32::from('>')) {}
            } else if self.peek() == Some('?') {
                return Err(InvalidPattern::new(
                    "unknown kind of group: `(?` needs `:`, `=`, `!`, `<=`, `<!` or `<name>`",
                ));
            }
            self.groups += 1;
            let number = self.groups;
            Node::Group(Box::new(self.alternatives()?), number)
        };
        if self.eat(')') { Ok(node) } else { Err(InvalidPattern::new("a `(` without its `)`")) }
    }

    fn look(&mut self) -> Option<(bool, bool)> {
        [("?=", (true, false)), ("?!", (true, true)), ("?<=", (false, false)), ("?<!", (false, true))]
            .into_iter()
            .find_map(|(sign, kind)| self.eat_all(sign).then_some(kind))
    }

    fn escape(&mut self) -> Result<Node, InvalidPattern> {
        let Some(c) = self.peek() else { return Err(InvalidPattern::new("a `\\` at the end")) };
        match c {
            'b' | 'B' => {
                self.at += 1;
                return Ok(Node::Boundary { negated: c == 'B' });
            }
            '1'..='9' => {
                let before = self.at;
                let number = self.number().unwrap_or(u32::MAX) as usize;
                if number <= self.all_groups {
                    return Ok(Node::Back(number));
                }
                if self.unicode {
                    return Err(InvalidPattern::new(format!("there is no group {number}")));
                }
                self.at = before;
            }
            'k' if self.unicode || !self.names.is_empty() => {
                self.at += 1;
                let rest = &self.units[self.at..];
                let end = rest.iter().position(|unit| *unit == u32::from('>'));
                let name = end.filter(|_| self.peek() == Some('<')).map(|end| text(&rest[1..end]));
                let Some(name) = name else { return Err(InvalidPattern::new("`\\k` needs `<name>`")) };
                self.at += end.unwrap_or_default() + 1;
                let number = self.names.get(&name).copied().unwrap_or_default();
                self.named_back.push(name);
                return Ok(Node::Back(number));
            }
            _ => {}
        }
        match self.class_escape()? {
            Some(class) => Ok(Node::Class(class)),
            None => Ok(Node::Char(self.character_escape()?)),
        }
    }
}
