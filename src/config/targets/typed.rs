//! The types that a setting can have.

use std::num::NonZeroU32;
use std::time::Duration;

use super::settings::{OptionalValue, Settings};
use super::shape::Shape;
use super::values::{Legal, parse_duration};
use crate::config::NodeValue;
use crate::config::yaml::plain;

impl Settings<'_, '_> {
    /// Text on one line, not blank.
    pub(super) fn text(&mut self, key: &'static str) -> OptionalValue<String> {
        self.parsed(key, |text| Ok(text.to_owned()))
    }

    /// Any text, unchanged.
    pub(super) fn verbatim(&mut self, key: &'static str) -> OptionalValue<String> {
        let Some(setting) = self.get(key)? else { return Ok(None) };
        match &setting.value {
            NodeValue::String(text) => Ok(Some(text.clone())),
            _ => Err(self.wrong(key, &setting, "a string")),
        }
    }

    /// Text on one line with a format of its own.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Legal>,
    ) -> OptionalValue<T> {
        let Some(setting) = self.get(key)? else { return Ok(None) };
        let NodeValue::String(text) = &setting.value else {
            let number = matches!(setting.value, NodeValue::Int(_) | NodeValue::Float(_));
            let legal = Legal::from("a string");
            let legal = if number { legal.hint("put it in quotes") } else { legal };
            return Err(self.wrong(key, &setting, legal));
        };
        let text = text.trim();
        if text.is_empty() || text.contains(char::is_control) {
            return Err(self.wrong(key, &setting, "text on one line"));
        }
        parse(text).map(Some).map_err(|legal| self.wrong(key, &setting, legal))
    }

    /// A duration in the range of the key.
    pub(super) fn duration(&mut self, key: &'static str) -> OptionalValue<Duration> {
        let least = match self.shape(key) {
            Some(Shape::Duration(least)) => Duration::from_millis(least),
            _ => Duration::ZERO,
        };
        self.typed(key, |value| match value {
            NodeValue::String(text) => match parse_duration(text) {
                Ok(duration) if duration < least => Err(format!("at least `{}`", shown(least)).into()),
                Ok(duration) => Ok(duration),
                Err(message) => Err(message.trim_start_matches("expected ").to_owned().into()),
            },
            NodeValue::Int(number) if *number >= 0 => Err(Legal::from("a duration with its unit")
                .hint(format!("write `{number}s`, `{number}m`, `{number}h` or `{number}ms`"))),
            _ => Err(Legal::from("a duration").hint("for example `90s`, `10m`, `1h` or `500ms`")),
        })
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str) -> OptionalValue<bool> {
        self.typed(key, |value| match value {
            NodeValue::Bool(flag) => Ok(*flag),
            _ => Err("`true` or `false`".into()),
        })
    }

    /// A number in the range of the key.
    pub(super) fn number(&mut self, key: &'static str) -> OptionalValue<f64> {
        let (least, most, above) = match self.shape(key) {
            Some(Shape::Number(least, most)) => (least, most, false),
            Some(Shape::Above0(most)) => (0.0, most, true),
            _ => (f64::NEG_INFINITY, None, false),
        };
        self.typed(key, |value| match as_f64(value) {
            Some(number)
                if number.is_finite()
                    && number >= least
                    && !(above && number <= least)
                    && most.is_none_or(|most| number <= most) =>
            {
                Ok(number)
            }
            _ => Err(match (above, most) {
                (false, Some(most)) => format!("a number from {least} to {most}"),
                (false, None) => format!("a number, {least} or more"),
                (true, Some(most)) => format!("a number above {least}, at most {most}"),
                (true, None) => format!("a number above {least}"),
            }
            .into()),
        })
    }

    /// A whole number in the range of the key.
    pub(super) fn whole(&mut self, key: &'static str) -> OptionalValue<i64> {
        let range = match self.shape(key) {
            Some(Shape::Whole(least, most)) => least.unwrap_or(i64::MIN)..=most.unwrap_or(i64::MAX),
            _ => i64::MIN..=i64::MAX,
        };
        self.typed(key, |value| match value {
            NodeValue::Int(number) if range.contains(number) => Ok(*number),
            _ => Err(match (*range.start(), *range.end()) {
                (i64::MIN, i64::MAX) => "a whole number".into(),
                (least, most) if most >= i64::from(u32::MAX) => {
                    format!("a whole number, {least} or more").into()
                }
                (least, most) => format!("a whole number from {least} to {most}").into(),
            }),
        })
    }

    /// A whole number, 1 or more.
    pub(super) fn positive(&mut self, key: &'static str) -> OptionalValue<NonZeroU32> {
        self.typed(key, |value| match value {
            NodeValue::Int(number) if *number > i64::from(u32::MAX) => {
                Err(format!("at most {}", u32::MAX).into())
            }
            NodeValue::Int(number) => u32::try_from(*number)
                .ok()
                .and_then(NonZeroU32::new)
                .ok_or_else(|| "a whole number, 1 or more".into()),
            _ => Err("a whole number, 1 or more".into()),
        })
    }

    /// A string, or a list of strings.
    pub(super) fn strings(&mut self, key: &'static str) -> OptionalValue<Vec<String>> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let items = node.items().unwrap_or_else(|| std::slice::from_ref(node));
        let mut all = Vec::new();
        let mut unknown = None;
        for item in items {
            match self.resolve(key, item) {
                Ok(None) => {}
                Ok(Some(setting)) => match &setting.value {
                    NodeValue::String(text) if !text.is_empty() => all.push(text.clone()),
                    _ => unknown = Some(self.wrong(key, &setting, "a string or a list of strings")),
                },
                Err(missing) => unknown = Some(missing),
            }
        }
        unknown.map_or(Ok(Some(all)), Err)
    }

    /// A value of any kind; one from the environment is read like an unquoted value of the file.
    pub(super) fn typed<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&NodeValue) -> Result<T, Legal>,
    ) -> OptionalValue<T> {
        let Some(setting) = self.get(key)? else { return Ok(None) };
        let value = match (&setting.value, &setting.variable) {
            (NodeValue::String(text), Some(_)) => plain(text.trim()),
            (value, _) => value.clone(),
        };
        read(&value).map(Some).map_err(|legal| self.wrong(key, &setting, legal))
    }
}

fn shown(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ms", duration.as_millis())
    }
}

#[expect(clippy::cast_precision_loss, reason = "settings are far below 2^52")]
fn as_f64(value: &NodeValue) -> Option<f64> {
    match value {
        NodeValue::Int(number) => Some(*number as f64),
        NodeValue::Float(number) => Some(*number),
        _ => None,
    }
}
