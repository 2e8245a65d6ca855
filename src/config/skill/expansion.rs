//! Bounds the work of a schema: a few lines that each refer twice to the next one can exceed any machine.

use std::collections::BTreeMap;

use serde_json::Value;

/// How often one value may be checked, on any path through the schema.
const MOST_LOOKS: u64 = 100_000;
/// The deepest nesting of schemas, with references followed.
const DEEPEST: usize = 400;

/// Keywords that check the same value again: a schema, a list of them, or a mapping of names to them.
const SAME: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];
/// Keywords that check one part of the value; each may check the same part.
const PARTS: [&str; 9] = [
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "contentSchema",
];
/// Keywords of which only one schema checks each part of the value.
const CHOICES: [&str; 2] = ["properties", "prefixItems"];

/// Refuses a bundled schema that needs too much work.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let mut count = Count { root: schema, known: BTreeMap::new() };
    match count.reference("#", 0) {
        Some(looks) if looks <= MOST_LOOKS => Ok(()),
        Some(_) => Err(format!(
            "the schema refers so often to the same parts that one value would be looked at more than {MOST_LOOKS} times"
        )),
        None => Err(format!("the schema leads more than {DEEPEST} steps from one part to the next")),
    }
}

struct Count<'s> {
    root: &'s Value,
    /// The count of each reference. One that is still being counted counts once: it is recursive, and the answer decides how
    /// often it is followed.
    known: BTreeMap<String, u64>,
}

impl<'s> Count<'s> {
    /// How often a schema checks one value and, at most, one part of each part of it; `None` if it is too deep.
    fn schema(&mut self, schema: &'s Value, depth: usize) -> Option<u64> {
        if depth > DEEPEST {
            return None;
        }
        let Value::Object(map) = schema else { return Some(1) };
        let mut looks: u64 = 1;
        for (key, value) in map {
            let more = match key.as_str() {
                "$ref" => self.reference(value.as_str().unwrap_or_default(), depth + 1)?,
                key if CHOICES.contains(&key) => self.each(value, depth)?.into_iter().max().unwrap_or(0),
                "dependentSchemas" | "dependencies" | "patternProperties" => sum(&self.each(value, depth)?),
                key if SAME.contains(&key) || PARTS.contains(&key) => match value {
                    Value::Array(_) => sum(&self.each(value, depth)?),
                    one => self.schema(one, depth + 1)?,
                },
                _ => 0,
            };
            looks = looks.saturating_add(more);
        }
        Some(looks)
    }

    /// The counts of the schemas in a list or a mapping.
    fn each(&mut self, value: &'s Value, depth: usize) -> Option<Vec<u64>> {
        match value {
            Value::Object(map) => map.values().map(|one| self.schema(one, depth + 1)).collect(),
            Value::Array(list) => list.iter().map(|one| self.schema(one, depth + 1)).collect(),
            _ => Some(Vec::new()),
        }
    }

    /// The count of a reference within the bundle.
    fn reference(&mut self, reference: &str, depth: usize) -> Option<u64> {
        if let Some(looks) = self.known.get(reference) {
            return Some(*looks);
        }
        self.known.insert(reference.to_owned(), 1);
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let looks = target.map_or(Some(1), |target| self.schema(target, depth + 1))?;
        self.known.insert(reference.to_owned(), looks);
        Some(looks)
    }
}

fn sum(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Definitions, each linked to the next by `link`.
    fn chain(levels: usize, link: impl Fn(Value) -> Value) -> Value {
        let mut defs = serde_json::Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            defs.insert(format!("d{level}"), link(next));
        }
        defs.insert(format!("d{levels}"), json!({"type": "string"}));
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    }

    #[test]
    fn exponential_work_is_rejected() {
        let same = |next: Value| json!({"allOf": [next.clone(), next]});
        // The same for parts of the value: an answer can be as deep as the schema requires.
        let part = |next: Value| {
            let one = json!({"properties": {"a": next}});
            json!({"anyOf": [one.clone(), one]})
        };
        assert!(check(&chain(10, same)).is_ok() && check(&chain(10, part)).is_ok());
        let said = check(&chain(45, same)).unwrap_err();
        assert_eq!(
            said,
            "the schema refers so often to the same parts that one value would be looked at more than 100000 times"
        );
        assert_eq!(check(&chain(80, part)).unwrap_err(), said, "also where the count has no end");
        let deep = check(&chain(3_000, |next| json!({"not": next}))).unwrap_err();
        assert_eq!(deep, "the schema leads more than 400 steps from one part to the next");
    }

    #[test]
    fn large_and_recursive_schemas_are_accepted() {
        // For one value, many properties cost no more than one.
        let wide = |next: Value| {
            let names = (0..20).map(|name| (format!("p{name}"), next.clone()));
            json!({"type": "object", "properties": names.collect::<serde_json::Map<_, _>>()})
        };
        check(&chain(100, wide)).unwrap();
        let node = json!({"$ref": "#/$defs/node"});
        let pair = json!({"properties": {"left": node, "right": node}});
        let tree = json!({
            "$ref": "#/$defs/node",
            "$defs": {"node": {"anyOf": [pair, pair, {"type": "array", "items": node}, {"$ref": "#"}]}},
        });
        check(&tree).unwrap();
        check(&json!(true)).unwrap();
    }
}
