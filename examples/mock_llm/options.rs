//! The command line.

use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use crate::gateway::Gateway;
use crate::limit::Mode;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
A server on 127.0.0.1 that speaks OpenAI's chat completions and echoes the last user message

Usage: mock_llm [OPTIONS]

Options:
  --port PORT             the port; 0 takes a free one [default: 0]
  --latency-ms MS         how long an answer takes [default: 0]
  --jitter-ms MS          adds a random time between 0 and MS [default: 0]
  --rate-429 SHARE        the share of requests, 0 to 1, that are answered 429 [default: 0]
  --retry-after SECONDS   the `Retry-After` header of every 429 [default: 1]
  --rate-5xx SHARE        the share that is answered 503 [default: 0]
  --rate-drop SHARE       the share whose connection is closed without an answer [default: 0]
  --limit-per-second N    accepts N requests in a second and answers the others 429
  --limit-mode MODE       what a second is: `sliding`, `fixed` or `bucket` [default: sliding]
  --burst N               how many requests a full bucket holds [default: the limit]
  --max-in-flight N       answers 429 to what would be more requests at once
  --model NAME            has only the models that are named so, any number of times; `NAME=TARGET` is an alias
  --answers FILE          answers with the `content`, or refuses with the `status`, of the first line of this JSONL file
                          whose `model` and `contains` fit the request, instead of the message
  --mindrouter            errors as MindRouter has them: `{detail: …}`, and no `Retry-After`
  --require-key KEY       answers 401 to any other key, which it quotes
  --seed NUMBER           chooses which requests fail, and their jitter [default: 0]
  --record                counts the answers to each message, for `GET /served`
  --exit-with-stdin       ends when stdin is closed
  -h, --help              prints this

Limits and 429 are answered at once, 503 and closed connections after the latency. What happens to the n-th request
depends only on the seed and n, but for the limits.

The first line on stdout is `listening on http://127.0.0.1:PORT`. Endpoints:
  POST /v1/chat/completions
  GET  /v1/models
  GET  /counters          requests, ok, s429, s5xx, dropped, in_flight, max_in_flight; held_us: the time, in
                          microseconds, between arrival and answer, summed over `ok`
  GET  /served            how often each message was answered 200, with `--record`
  POST /reset             starts all of these, the limit and n anew
  POST /shutdown          ends the server
";

/// The options of the command line.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// To print the help.
    Help,
    /// To serve.
    Serve(Options),
}

/// How to serve.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// 0 takes a free one.
    pub(crate) port: u16,
    /// How long an answer takes.
    pub(crate) latency: Duration,
    /// The maximum of the added jitter.
    pub(crate) jitter: Duration,
    /// The share of requests that are answered 429.
    pub(crate) rate_429: f64,
    /// The `Retry-After` of a 429, in seconds.
    pub(crate) retry_after: u64,
    /// The share of requests that are answered 503.
    pub(crate) rate_5xx: f64,
    /// The share of requests that get no answer.
    pub(crate) rate_drop: f64,
    /// How many requests are accepted in a second.
    pub(crate) limit_per_second: Option<NonZeroU32>,
    /// What a second is.
    pub(crate) limit_mode: Mode,
    /// How many requests a full bucket holds.
    pub(crate) burst: Option<NonZeroU32>,
    /// How many concurrent requests are accepted.
    pub(crate) max_in_flight: Option<NonZeroU32>,
    /// The only accepted key.
    pub(crate) require_key: Option<String>,
    /// The models and their answers.
    pub(crate) gateway: Gateway,
    /// Chooses which requests fail.
    pub(crate) seed: u64,
    /// Whether answers are counted by message.
    pub(crate) record: bool,
    /// Whether the server ends with its stdin.
    pub(crate) exit_with_stdin: bool,
}

/// Reads `--name value` and `--name=value`.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Invocation, String> {
    let mut options = Options { retry_after: 1, ..Options::default() };
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let (name, inline) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        let is_switch = matches!(name, "-h" | "--help" | "--record" | "--exit-with-stdin" | "--mindrouter");
        if is_switch && inline.is_some() {
            return Err(format!("`{name}` takes no value"));
        }
        let mut value =
            || inline.clone().or_else(|| arguments.next()).ok_or_else(|| format!("`{name}` needs a value"));
        match name {
            "-h" | "--help" => return Ok(Invocation::Help),
            "--record" => options.record = true,
            "--mindrouter" => options.gateway.mindrouter = true,
            "--model" => options.gateway.add_model(&value()?),
            "--answers" => options.gateway.read_answers(value()?.as_ref())?,
            "--exit-with-stdin" => options.exit_with_stdin = true,
            "--port" => options.port = number(name, &value()?)?,
            "--latency-ms" => options.latency = Duration::from_millis(number(name, &value()?)?),
            "--jitter-ms" => options.jitter = Duration::from_millis(number(name, &value()?)?),
            "--rate-429" => options.rate_429 = share(name, &value()?)?,
            "--retry-after" => options.retry_after = number(name, &value()?)?,
            "--rate-5xx" => options.rate_5xx = share(name, &value()?)?,
            "--rate-drop" => options.rate_drop = share(name, &value()?)?,
            "--limit-per-second" => options.limit_per_second = Some(number(name, &value()?)?),
            "--limit-mode" => options.limit_mode = value()?.parse()?,
            "--burst" => options.burst = Some(number(name, &value()?)?),
            "--max-in-flight" => options.max_in_flight = Some(number(name, &value()?)?),
            "--require-key" => options.require_key = Some(value()?),
            "--seed" => options.seed = number(name, &value()?)?,
            _ => return Err(format!("unknown option `{name}`")),
        }
    }
    if options.rate_429 + options.rate_5xx + options.rate_drop > 1.0 {
        return Err("`--rate-429`, `--rate-5xx` and `--rate-drop` add up to more than 1".to_owned());
    }
    Ok(Invocation::Serve(options))
}

fn number<T: FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{name}` cannot be `{text}`"))
}

fn share(name: &str, text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!("`{name}` must be between 0 and 1, not `{text}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Invocation, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn values_can_follow_a_space_or_an_equals_sign() {
        let Ok(Invocation::Serve(options)) =
            parse_line("--latency-ms 50 --rate-429=0.1 --limit-mode bucket --record --limit-per-second=20")
        else {
            panic!("the line is legal");
        };
        assert_eq!(options.latency, Duration::from_millis(50));
        assert!((options.rate_429 - 0.1).abs() < f64::EPSILON);
        assert_eq!(options.limit_mode, Mode::Bucket);
        assert_eq!(options.limit_per_second, NonZeroU32::new(20));
        assert!(options.record && !options.exit_with_stdin);
        assert_eq!(options.retry_after, 1);
    }

    #[test]
    fn the_help_names_only_options_that_exist() {
        for word in HELP.split_whitespace().filter(|word| word.starts_with("--")) {
            let line = match word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
                "--limit-mode" => "--limit-mode fixed".to_owned(),
                "--answers" => "--answers /dev/null".to_owned(),
                "--help" | "--record" | "--exit-with-stdin" | "--mindrouter" => {
                    word.trim_matches(['`', '.', ',']).to_owned()
                }
                name => format!("{name} 1"),
            };
            assert!(parse_line(&line).is_ok(), "{line}");
        }
    }

    #[test]
    fn mistakes_are_reported() {
        let messages: Vec<String> = [
            "--latency 5",
            "--port",
            "--port x",
            "--rate-429 1.5",
            "--limit-per-second 0",
            "--limit-mode leaky",
            "--record=yes",
            "--rate-429 0.6 --rate-5xx 0.6",
        ]
        .into_iter()
        .map(|line| parse_line(line).unwrap_err())
        .collect();
        insta::assert_snapshot!(messages.join("\n"), @r"
        unknown option `--latency`
        `--port` needs a value
        `--port` cannot be `x`
        `--rate-429` must be between 0 and 1, not `1.5`
        `--limit-per-second` cannot be `0`
        unknown limit mode `leaky`: one of `sliding`, `fixed`, `bucket`
        `--record` takes no value
        `--rate-429`, `--rate-5xx` and `--rate-drop` add up to more than 1
        ");
    }
}
