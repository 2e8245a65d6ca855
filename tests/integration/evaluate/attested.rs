//! Statements about entries: of the in-toto format, with digests that fit the files, and the same bytes each time.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::stage::Stage;

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn statements_are_in_toto_and_name_the_files_by_their_digests() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let order = ["--replicates", "1", "--batch-id", "attested", "--output", "out", "-q"];
    stage.evaluate(&order).expect(0);
    let schema = include_str!("../../../fixtures/attestation/statement.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let text = stage.workspace.read("out/statement.intoto.json");
    let statement: Value = serde_json::from_str(&text).unwrap();
    assert!(schema.is_valid(&statement), "{text}");
    assert_eq!(statement["predicate"]["origin"]["unsigned"], true);
    let predicate: Value = serde_json::from_str(&stage.workspace.read("out/predicate.json")).unwrap();
    assert_eq!(predicate, statement["predicate"]);
    let subjects = statement["subject"].as_array().unwrap();
    assert_eq!(subjects.len(), 4);
    for subject in subjects {
        let (name, digest) =
            (subject["name"].as_str().unwrap(), subject["digest"]["sha256"].as_str().unwrap());
        assert_eq!(sha256(&stage.workspace.read(&format!("out/{name}"))), digest, "{name}");
        if name.starts_with("entries/") {
            let own = stage.workspace.read(&format!("out/attestations/{digest}.intoto.json"));
            assert!(schema.is_valid(&serde_json::from_str(&own).unwrap()), "{own}");
        }
    }
    // The same evaluation has the same statement.
    stage.evaluate(&order).expect(0);
    assert_eq!(stage.workspace.read("out/statement.intoto.json"), text);
}
