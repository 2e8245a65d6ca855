//! GitHub Apps: their JWTs and the tokens of their installations.

use std::collections::BTreeMap;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use super::{REPO, Sim};
use crate::support::github::NewApp;

fn jwt(key: &str, claims: &Value) -> String {
    let key = EncodingKey::from_rsa_pem(key.as_bytes()).unwrap();
    jsonwebtoken::encode(&Header::new(Algorithm::RS256), claims, &key).unwrap()
}

#[test]
fn an_app_gets_a_token_for_its_installation() {
    let sim = Sim::new("exit 0");
    let permissions = BTreeMap::from([("actions".to_owned(), "write".to_owned())]);
    let grants = BTreeMap::from([(REPO.to_owned(), permissions)]);
    let key = sim.github.app(&NewApp { id: 42, grants, token_seconds: Some(4) });
    let now = jiff::Timestamp::now().as_second();
    let app = sim.client_of(&jwt(&key, &json!({ "iat": now - 60, "exp": now + 500, "iss": 42 })));
    let installation = app.get(&format!("/repos/{REPO}/installation"));
    assert_eq!(installation.status, 200, "{}", installation.text);
    assert_eq!(app.get("/repos/acme/none/installation").status, 404);
    let path = format!("/app/installations/{}/access_tokens", installation.json["id"]);
    let issued = app.post(&path, &json!({ "repositories": ["runner"] }));
    assert_eq!(issued.status, 201, "{}", issued.text);
    let client = sim.client_of(issued.json["token"].as_str().unwrap());
    assert_eq!(client.get("/repos/acme/runner/actions/runs").status, 200);
    assert_eq!(
        client.get("/repos/acme/runner/contents/.github").message(),
        "403 Resource not accessible by integration"
    );
    sim.github.until(|_| client.get("/repos/acme/runner/actions/runs").status == 401);

    let refused = |claims: Value| sim.client_of(&jwt(&key, &claims)).get("/app").message();
    let mut messages = vec![
        refused(json!({ "iat": now, "exp": now + 5000, "iss": 42 })),
        refused(json!({ "iat": now - 99, "exp": now - 1, "iss": 42 })),
        refused(json!({ "iat": now + 500, "exp": now + 550, "iss": "42" })),
        refused(json!({ "iat": now, "exp": now + 500, "iss": 43 })),
    ];
    let other = sim.github.app(&NewApp { id: 44, ..NewApp::default() });
    messages.push(
        sim.client_of(&jwt(&other, &json!({ "iat": now, "exp": now + 500, "iss": 42 })))
            .get("/app")
            .message(),
    );
    insta::assert_snapshot!(messages.join("\n"), @r"
    401 'Expiration time' claim ('exp') is too far in the future
    401 A JSON web token could not be decoded
    401 'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued
    401 Integration not found
    401 A JSON web token could not be decoded
    ");
}
