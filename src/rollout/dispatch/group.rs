//! The rows of one workflow run: a single row, or as many as fit into the inputs of a dispatch.

use std::collections::BTreeMap;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::rows::ClientRow;
use crate::github::Run;
use crate::model::{Digest, Secret};
use crate::rollout::endpoint::Endpoint;
use crate::rollout::ids::Ids;

/// GitHub takes 65,535 characters; the rest of the inputs needs some of them.
const MOST_METADATA: usize = 56_000;
/// More rows would take a job too long.
const MOST_ROWS: usize = 1_000;

/// The rows of one run.
#[derive(Debug, Clone)]
pub(super) struct RowGroup {
    /// Which rows.
    pub(super) rows: Vec<usize>,
    /// The run's name after `rollout:`.
    pub(super) name: String,
    /// When it was dispatched.
    pub(super) at: Timestamp,
    pub(super) since: Instant,
    /// The run, once it is known.
    pub(super) run_id: Option<u64>,
    /// The URL of its page.
    pub(super) page: Option<String>,
    /// Its last known state.
    pub(super) run: Option<Run>,
    /// Whether GitHub listed its runs after the grace period without this one.
    pub(super) is_missing: bool,
    /// How often these rows have been dispatched.
    pub(super) attempt: u32,
    /// Whether the rows were run before, so that an old status is ignored.
    pub(super) is_repeated: bool,
}

impl RowGroup {
    /// A group to be dispatched.
    pub(super) fn new(rows: Vec<usize>, ids: &[Ids], attempt: u32, is_repeated: bool) -> Self {
        let name = match rows.as_slice() {
            [only] => ids[*only].rollout_id.clone(),
            many => {
                let all: Vec<&str> = many.iter().map(|index| ids[*index].rollout_id.as_str()).collect();
                format!("batch-{}", &Digest::of(all.join("\n").as_bytes()).to_string()[..20])
            }
        };
        Self {
            rows,
            name,
            at: Timestamp::now(),
            since: Instant::now(),
            run_id: None,
            page: None,
            run: None,
            is_missing: false,
            attempt,
            is_repeated,
        }
    }

    /// The inputs of its dispatch.
    pub(super) fn inputs(
        &self,
        rows: &[ClientRow],
        ids: &[Ids],
        endpoint: &Endpoint,
        key: Option<&Secret>,
    ) -> BTreeMap<String, String> {
        let (params, metadata, base_url) = match self.rows.as_slice() {
            [only] => {
                let (params, ids) = (&rows[*only].completion_params, &ids[*only]);
                let behind = params.get("base_url").and_then(Value::as_str).filter(|url| !url.is_empty());
                (params.clone(), json!(ids), endpoint.model_base_url(ids, behind))
            }
            // Only the base URL is common to several rows; only our own worker reads them.
            many => {
                let (params, metadata) = batch(many, rows, ids, &self.name);
                (params, metadata, endpoint.base())
            }
        };
        let key = key.map(|key| key.expose().to_owned()).unwrap_or_default();
        let values = [Value::Object(params).to_string(), metadata.to_string(), base_url, key];
        crate::rollout::INPUTS.map(ToOwned::to_owned).into_iter().zip(values).collect()
    }

    /// Whether a run of the list belongs to this group.
    pub(super) fn is_its(&self, run: &Run) -> bool {
        match self.run_id {
            Some(id) => run.id == id,
            None => {
                run.display_title == self.title() && run.created_at.is_none_or(|at| at >= self.earliest())
            }
        }
    }

    /// The earliest creation time of the run, with tolerance for clock differences.
    pub(super) fn earliest(&self) -> Timestamp {
        self.at - jiff::SignedDuration::from_mins(2)
    }

    /// The title of the run.
    pub(super) fn title(&self) -> String {
        format!("rollout:{}", self.name)
    }

    /// The run's page.
    pub(super) fn url(&self) -> Option<String> {
        let seen = self.run.as_ref().map(|run| run.html_url.clone()).filter(|url| !url.is_empty());
        seen.or_else(|| self.page.clone())
    }
}

/// The fields that all rows share, and each row's own.
fn batch(many: &[usize], rows: &[ClientRow], ids: &[Ids], name: &str) -> (Map<String, Value>, Value) {
    let shared = many.first().map(|index| rows[*index].completion_params.clone()).unwrap_or_default();
    let entries: Vec<Value> = many.iter().map(|index| entry(*index, rows, ids, &shared)).collect();
    let first = many.first().map(|index| &ids[*index]);
    let of = |part: fn(&Ids) -> &String| first.map(part).cloned().unwrap_or_default();
    let metadata = json!({
        "invocation_id": of(|ids| &ids.invocation_id),
        "experiment_id": of(|ids| &ids.experiment_id),
        "rollout_id": name,
        "run_id": of(|ids| &ids.run_id),
        "row_id": format!("{} rows", many.len()),
        "rows": entries,
    });
    (shared, metadata)
}

fn entry(index: usize, rows: &[ClientRow], ids: &[Ids], shared: &Map<String, Value>) -> Value {
    let mut entry = json!({"rollout_id": ids[index].rollout_id, "row_id": ids[index].row_id});
    if rows[index].completion_params != *shared {
        entry["completion_params"] = rows[index].completion_params.clone().into();
    }
    entry
}

/// Splits the rows into groups of one, or of as many as fit.
pub(super) fn split(open: &[usize], rows: &[ClientRow], ids: &[Ids], batch: bool) -> Vec<Vec<usize>> {
    if !batch {
        return open.iter().map(|index| vec![*index]).collect();
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut length = 0;
    for index in open {
        let shared =
            groups.last().and_then(|group| group.first()).map(|first| &rows[*first].completion_params);
        let own = &rows[*index].completion_params;
        let text = entry(*index, rows, ids, shared.unwrap_or(own)).to_string();
        // Its length in an input, where quotes are escaped once more.
        let size = Value::from(text).to_string().chars().count();
        // A row that lacks a shared parameter cannot remove it.
        let fits_params = shared.is_none_or(|shared| shared.keys().all(|name| own.contains_key(name)));
        match groups.last_mut() {
            Some(group) if length + size <= MOST_METADATA && group.len() < MOST_ROWS && fits_params => {
                group.push(*index);
                length += size;
            }
            _ => {
                groups.push(vec![*index]);
                length = size;
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint::new("https://t.example".parse().unwrap(), None, &[]).unwrap()
    }

    fn rows(count: usize, params: &Value) -> (Vec<ClientRow>, Vec<Ids>) {
        let row = |index: usize| ClientRow {
            line: Map::new(),
            row_id: format!("it's \"row\" {index}"),
            completion_params: params.as_object().unwrap().clone(),
        };
        let ids = |index: usize| Ids {
            rollout_id: format!("rollout-{index:020}"),
            invocation_id: "i".into(),
            experiment_id: "e".into(),
            run_id: "r".into(),
            row_id: format!("it's \"row\" {index}"),
        };
        ((0..count).map(row).collect(), (0..count).map(ids).collect())
    }

    #[test]
    fn a_group_fits_into_the_inputs() {
        let (rows, ids) = rows(2_500, &json!({"model": "m"}));
        let open: Vec<usize> = (0..rows.len()).collect();
        let groups = split(&open, &rows, &ids, true);
        assert_eq!(groups.concat(), open);
        assert!((3..10).contains(&groups.len()), "{}", groups.len());
        for group in groups {
            let inputs = RowGroup::new(group, &ids, 1, false).inputs(&rows, &ids, &endpoint(), None);
            assert!(json!(inputs).to_string().chars().count() <= 65_535);
        }
        assert_eq!(split(&open, &rows, &ids, false).len(), rows.len());
    }

    #[test]
    fn a_row_keeps_its_own_parameters() {
        let (mut rows, ids) = rows(3, &json!({"model": "m", "seed": 1}));
        rows[1].completion_params.insert("seed".into(), 2.into());
        rows[2].completion_params.shift_remove("seed");
        let groups = split(&[0, 1, 2], &rows, &ids, true);
        assert_eq!(groups, [vec![0, 1], vec![2]]);
        let inputs = RowGroup::new(vec![0, 1], &ids, 1, false).inputs(&rows, &ids, &endpoint(), None);
        let metadata: Value = serde_json::from_str(&inputs["metadata"]).unwrap();
        assert_eq!(metadata["rows"][0].get("completion_params"), None);
        assert_eq!(metadata["rows"][1]["completion_params"]["seed"], 2);
    }
}
