//! `${{ … }}`: the subset of GitHub's expressions that our workflow files use.

use serde_json::Value;

/// The context of an expression.
#[derive(Debug, Clone, Default)]
pub(crate) struct Context {
    /// `inputs`, `github`, `secrets`, `matrix`, `needs`: an object.
    pub(crate) values: Value,
    /// The value of `cancelled()`.
    pub(crate) cancelled: bool,
    /// The value of `failure()`.
    pub(crate) failed: bool,
}

/// A text with its expressions replaced. A text that is a single expression keeps the type of its value.
pub(crate) fn interpolate(text: &str, context: &Context) -> Result<Value, String> {
    if let Some(inner) = text.trim().strip_prefix("${{").and_then(|text| text.strip_suffix("}}"))
        && !inner.contains("}}")
    {
        return evaluate(inner, context);
    }
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${{") {
        let (inner, tail) = after.split_once("}}").ok_or_else(|| format!("`{text}` has no `}}}}`"))?;
        result.push_str(before);
        result.push_str(&as_text(&evaluate(inner, context)?));
        rest = tail;
    }
    result.push_str(rest);
    Ok(Value::from(result))
}

/// The same for everything in a value.
pub(crate) fn interpolate_all(value: &Value, context: &Context) -> Result<Value, String> {
    match value {
        Value::String(text) => interpolate(text, context),
        Value::Array(items) => items.iter().map(|item| interpolate_all(item, context)).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| Ok((key.clone(), interpolate_all(value, context)?)))
            .collect::<Result<_, String>>()
            .map(Value::Object),
        other => Ok(other.clone()),
    }
}

/// Whether an `if:` is true. Without a status function, all earlier steps must have succeeded.
pub(crate) fn holds(condition: Option<&str>, context: &Context) -> Result<bool, String> {
    let went_well = !context.cancelled && !context.failed;
    let Some(condition) = condition else { return Ok(went_well) };
    let inner = condition.trim();
    let inner = inner.strip_prefix("${{").and_then(|text| text.strip_suffix("}}")).unwrap_or(inner);
    let asks = ["always()", "cancelled()", "failure()", "success()"].iter().any(|name| inner.contains(name));
    Ok((asks || went_well) && is_true(&evaluate(inner, context)?))
}

/// A value as text.
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn evaluate(text: &str, context: &Context) -> Result<Value, String> {
    let mut parser = Parser { rest: text, context };
    let value = parser.either()?;
    if parser.rest.trim().is_empty() {
        Ok(value)
    } else {
        Err(format!("cannot read `{}` of `{text}`", parser.rest))
    }
}

struct Parser<'a> {
    rest: &'a str,
    context: &'a Context,
}

impl Parser<'_> {
    fn either(&mut self) -> Result<Value, String> {
        let mut value = self.both()?;
        while self.take("||") {
            let other = self.both()?;
            value = if is_true(&value) { value } else { other };
        }
        Ok(value)
    }

    fn both(&mut self) -> Result<Value, String> {
        let mut value = self.comparison()?;
        while self.take("&&") {
            let other = self.comparison()?;
            value = if is_true(&value) { other } else { value };
        }
        Ok(value)
    }

    fn comparison(&mut self) -> Result<Value, String> {
        let value = self.unary()?;
        if self.take("==") {
            return Ok(Value::from(is_equal(&value, &self.unary()?)));
        }
        if self.take("!=") {
            return Ok(Value::from(!is_equal(&value, &self.unary()?)));
        }
        Ok(value)
    }

    fn unary(&mut self) -> Result<Value, String> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('!') && !self.rest.starts_with("!=") {
            self.rest = &self.rest[1..];
            return Ok(Value::from(!is_true(&self.unary()?)));
        }
        let mut value = self.primary()?;
        loop {
            if self.rest.starts_with('.') {
                self.rest = &self.rest[1..];
                let name = self.name();
                value = member(&value, &name);
            } else if self.take("[") {
                let index = self.either()?;
                self.expect("]")?;
                value = match &index {
                    Value::Number(number) => number
                        .as_u64()
                        .and_then(|index| value.get(usize::try_from(index).ok()?))
                        .cloned()
                        .unwrap_or_default(),
                    other => member(&value, &as_text(other)),
                };
            } else {
                return Ok(value);
            }
        }
    }

    fn primary(&mut self) -> Result<Value, String> {
        if self.take("(") {
            let value = self.either()?;
            self.expect(")")?;
            return Ok(value);
        }
        if self.take("'") {
            return self.quoted();
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let end = self
                .rest
                .find(|c: char| !c.is_ascii_digit() && c != '-' && c != '.')
                .unwrap_or(self.rest.len());
            let (number, rest) = self.rest.split_at(end);
            self.rest = rest;
            return serde_json::from_str(number).map_err(|_| format!("`{number}` is not a number"));
        }
        let name = self.name();
        if name.is_empty() {
            return Err(format!("cannot read `{}`", self.rest));
        }
        if self.take("(") {
            return self.function(&name);
        }
        Ok(match name.as_str() {
            "true" => Value::from(true),
            "false" => Value::from(false),
            "null" => Value::Null,
            _ => match self.context.values.get(&name) {
                Some(value) => value.clone(),
                None => return Err(format!("the context `{name}` is not simulated")),
            },
        })
    }

    fn quoted(&mut self) -> Result<Value, String> {
        let mut text = String::new();
        loop {
            let (before, after) = self.rest.split_once('\'').ok_or("a quote is not closed")?;
            text.push_str(before);
            self.rest = after;
            if !self.rest.starts_with('\'') {
                return Ok(Value::from(text));
            }
            text.push('\'');
            self.rest = &self.rest[1..];
        }
    }

    fn function(&mut self, name: &str) -> Result<Value, String> {
        let mut arguments = Vec::new();
        while !self.take(")") {
            arguments.push(self.either()?);
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        let first = arguments.first().map(as_text).unwrap_or_default();
        let second = arguments.get(1).map(as_text).unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "fromjson" => serde_json::from_str(&first).map_err(|error| format!("fromJSON: {error}")),
            "tojson" => Ok(Value::from(arguments.first().map(Value::to_string).unwrap_or_default())),
            "startswith" => Ok(Value::from(first.to_lowercase().starts_with(&second.to_lowercase()))),
            "contains" => Ok(Value::from(match arguments.first() {
                Some(Value::Array(items)) => items.iter().any(|item| as_text(item) == second),
                _ => first.to_lowercase().contains(&second.to_lowercase()),
            })),
            "always" => Ok(Value::from(true)),
            "cancelled" => Ok(Value::from(self.context.cancelled)),
            "failure" => Ok(Value::from(self.context.failed)),
            "success" => Ok(Value::from(!self.context.failed && !self.context.cancelled)),
            _ => Err(format!("the function `{name}` is not simulated")),
        }
    }

    fn name(&mut self) -> String {
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
            .unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        name.to_owned()
    }

    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(token) {
            Some(tail) => {
                self.rest = tail;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(format!("`{token}` is missing before `{}`", self.rest)) }
    }
}

/// A member by its case-insensitive name.
fn member(value: &Value, name: &str) -> Value {
    let found = value.as_object().and_then(|map| map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)));
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// GitHub compares text case-insensitively, and anything with a number as numbers.
fn is_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::String(left), Value::String(right)) => left.eq_ignore_ascii_case(right),
        (Value::Null, Value::Null) => true,
        (Value::Null, Value::Array(_) | Value::Object(_))
        | (Value::Array(_) | Value::Object(_), Value::Null) => false,
        _ if left.is_null() || right.is_null() => as_number(left) == as_number(right),
        _ => left == right || as_number(left).is_some() && as_number(left) == as_number(right),
    }
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Null => Some(0.0),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) if text.trim().is_empty() => Some(0.0),
        Value::String(text) => text.trim().parse().ok(),
        Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn context() -> Context {
        Context {
            values: json!({
                "inputs": { "batch_id": "b1", "shards": "[0,2]", "empty": "" },
                "secrets": { "KEY": "s" },
                "github": { "token": "t", "event": { "inputs": { "x": "y" } } },
            }),
            cancelled: false,
            failed: true,
        }
    }

    fn value(text: &str) -> Value {
        interpolate(text, &context()).unwrap()
    }

    #[test]
    fn expressions_are_replaced() {
        assert_eq!(value("eval ${{ inputs.batch_id }} ${{inputs.missing}}!"), json!("eval b1 !"));
        assert_eq!(value("${{ fromJSON(inputs.shards) }}"), json!([0, 2]));
        assert_eq!(
            value("${{ github.event.inputs.x || 'z' }}${{ inputs.empty || 'it''s' }}"),
            json!("yit's")
        );
        assert_eq!(value("${{ secrets['KEY'] }}"), json!("s"));
        assert_eq!(value("${{ secrets.key == 'S' && !false }}"), json!(true));
        assert_eq!(
            interpolate_all(&json!({ "a": ["${{ github.token }}", 1] }), &context()),
            Ok(json!({ "a": ["t", 1] }))
        );
    }

    #[test]
    fn conditions_are_evaluated() {
        let holds = |text: &str| holds(Some(text), &context()).unwrap();
        assert!(holds("${{ !cancelled() && fromJSON(inputs.shards)[1] != null }}"));
        assert!(!holds("${{ !cancelled() && fromJSON(inputs.shards)[2] != null }}"));
        assert!(!holds("inputs.batch_id == 'b1'"), "something failed before");
        assert!(holds("failure() && inputs.batch_id == 'b1'"));
        assert!(holds("${{ always() }}"));
    }

    #[test]
    fn shard_zero_equals_null() {
        // `0 != null` is false at GitHub, because null becomes 0.
        assert_eq!(value("${{ fromJSON(inputs.shards)[0] != null }}"), json!(false));
        assert_eq!(value("${{ fromJSON(inputs.shards)[1] != null }}"), json!(true));
    }

    #[test]
    fn unsupported_expressions_are_errors() {
        for text in
            ["${{ hashFiles('x') }}", "${{ env.X }}", "${{ inputs.a", "x ${{ 'a }} y", "${{ inputs.a b }}"]
        {
            assert!(interpolate(text, &context()).is_err(), "{text}");
        }
    }
}
