//! Announced shutdowns of models, where the provider's list of models tells them.

use crate::model::{Api, Finding, Level, RunnerTarget, printable};
use crate::providers::list_models;

/// The date on which the target's model shuts down, if its provider announces one.
pub async fn shutdown(target: &RunnerTarget) -> Option<Finding> {
    let is_openai = target.provider.endpoint().is_some_and(|endpoint| endpoint.api == Api::OpenAi);
    let model = target.params.model.as_deref().filter(|_| is_openai)?;
    let listed = match list_models(target).await {
        Ok(models) => models?,
        Err(failure) => return Some(Finding::failure(Level::Unknown, &failure)),
    };
    let list = "`curl -H \"Authorization: Bearer $OPENAI_API_KEY\" https://api.openai.com/v1/models` lists the models";
    let Some(found) = listed.iter().find(|known| known.id == model) else {
        let text = format!("the provider does not list the model `{}` for this key", printable(model));
        return Some(Finding::new(Level::Warning, text).hint(list));
    };
    let date = found.shutdown_date()?;
    let text = format!("the provider shuts `{}` down on {}", printable(model), printable(&date));
    Some(Finding::new(Level::Warning, text).hint(list))
}
