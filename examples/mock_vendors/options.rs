//! The command line.

/// What is simulated, and what goes wrong.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) port: u16,
    /// The token that a job requests identity tokens with.
    pub(crate) request_token: String,
    /// The subject of the job, and the one that the vendors' rules accept.
    pub(crate) subject: String,
    pub(crate) accepted_subject: String,
    /// Seconds that issued credentials live.
    pub(crate) token_life: u64,
    /// The first exchanges fail so: `429:2`, `500:1`, `hang:1`, `redirect:1`, `huge:1`, `bomb:1`,
    /// `trickle:1`.
    pub(crate) exchange_fault: Option<(String, u64)>,
    /// The first requests for identity tokens fail so.
    pub(crate) mint_fault: Option<(String, u64)>,
    /// So many tokens of the job have expired when they arrive.
    pub(crate) stale: u64,
    /// Claims of the job that differ.
    pub(crate) claims: Vec<(String, String)>,
    /// What every exchange answers instead.
    pub(crate) exchange_answer: Option<String>,
    /// Milliseconds that an exchange takes.
    pub(crate) exchange_delay_ms: u64,
    /// Whether GitHub always issues the same token.
    pub(crate) same_jwt: bool,
    /// So many calls wait for each other; then the vendor revokes all tokens, and rejects those calls.
    pub(crate) revoke_at: usize,
    /// So many calls are answered before that.
    pub(crate) revoke_from: usize,
    /// Whether answers and errors repeat tokens.
    pub(crate) echo_secrets: bool,
    /// Whether calls are refused for a missing role.
    pub(crate) no_role: bool,
    /// Seconds by which the vendors' clock is ahead.
    pub(crate) clock_ahead: i64,
    /// Milliseconds that a call takes.
    pub(crate) latency_ms: u64,
}

const SUBJECT: &str = "repo:myorg@1001/eval-runner@2002:environment:run-evals";

pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        port: 0,
        request_token: "ghs-request-token-0123456789abcdef".to_owned(),
        subject: SUBJECT.to_owned(),
        accepted_subject: String::new(),
        token_life: 3600,
        exchange_fault: None,
        mint_fault: None,
        stale: 0,
        claims: Vec::new(),
        exchange_answer: None,
        exchange_delay_ms: 0,
        same_jwt: false,
        revoke_at: 0,
        revoke_from: 0,
        echo_secrets: false,
        no_role: false,
        clock_ahead: 0,
        latency_ms: 0,
    };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--same-jwt" => options.same_jwt = true,
            "--echo-secrets" => options.echo_secrets = true,
            "--no-role" => options.no_role = true,
            name => {
                let value = arguments.next().ok_or_else(|| format!("`{name}` needs a value"))?;
                let number =
                    |value: &str| value.parse::<u64>().map_err(|_| format!("`{name}` needs a number"));
                match name {
                    "--port" => options.port = number(&value)?.try_into().unwrap_or(0),
                    "--request-token" => options.request_token = value,
                    "--subject" => options.subject = value,
                    "--accepted-subject" => options.accepted_subject = value,
                    "--token-life" => options.token_life = number(&value)?,
                    "--exchange-fault" => options.exchange_fault = Some(fault(&value)?),
                    "--stale" => options.stale = number(&value)?,
                    "--claim" => {
                        let (name, value) = value.split_once('=').ok_or("a claim is `NAME=VALUE`")?;
                        options.claims.push((name.to_owned(), value.to_owned()));
                    }
                    "--exchange-answer" => options.exchange_answer = Some(value),
                    "--exchange-delay" => options.exchange_delay_ms = number(&value)?,
                    "--mint-fault" => options.mint_fault = Some(fault(&value)?),
                    "--revoke-at" => options.revoke_at = usize::try_from(number(&value)?).unwrap_or(0),
                    "--revoke-from" => options.revoke_from = usize::try_from(number(&value)?).unwrap_or(0),
                    "--clock-ahead" => {
                        options.clock_ahead = value.parse().map_err(|_| "no number".to_owned())?;
                    }
                    "--latency" => options.latency_ms = number(&value)?,
                    _ => return Err(format!("unknown option `{name}`")),
                }
            }
        }
    }
    if options.accepted_subject.is_empty() {
        options.accepted_subject.clone_from(&options.subject);
    }
    Ok(options)
}

fn fault(value: &str) -> Result<(String, u64), String> {
    let (what, count) = value.split_once(':').ok_or("a fault is `STATUS:COUNT`")?;
    Ok((what.to_owned(), count.parse().map_err(|_| "a fault is `STATUS:COUNT`")?))
}
