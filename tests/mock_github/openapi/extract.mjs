// Makes `fixtures/github/openapi.json` from GitHub's OpenAPI description: the routes below, schemas only.
//
//     npm install @octokit/openapi
//     node tests/mock_github/openapi/extract.mjs node_modules/@octokit/openapi/generated/api.github.com.json
//
// One route or schema a line, sorted, so that the difference between two versions can be read. `nullable` of OpenAPI 3.0 becomes
// a type of JSON Schema, and what is documentation is left out.

import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const REPO = "/repos/{owner}/{repo}";
const ROUTES = {
  "/app": ["get"],
  "/app/installations": ["get"],
  "/app/installations/{installation_id}/access_tokens": ["post"],
  "/meta": ["get"],
  "/orgs/{org}": ["get"],
  "/orgs/{org}/repos": ["post"],
  "/rate_limit": ["get"],
  "/user": ["get"],
  "/user/repos": ["post"],
  [`${REPO}`]: ["get"],
  [`${REPO}/actions/artifacts`]: ["get"],
  [`${REPO}/actions/artifacts/{artifact_id}`]: ["get", "delete"],
  [`${REPO}/actions/artifacts/{artifact_id}/{archive_format}`]: ["get"],
  [`${REPO}/actions/jobs/{job_id}`]: ["get"],
  [`${REPO}/actions/jobs/{job_id}/logs`]: ["get"],
  [`${REPO}/actions/organization-secrets`]: ["get"],
  [`${REPO}/actions/permissions`]: ["get"],
  [`${REPO}/actions/permissions/selected-actions`]: ["get"],
  [`${REPO}/actions/runs`]: ["get"],
  [`${REPO}/actions/runs/{run_id}`]: ["get"],
  [`${REPO}/actions/runs/{run_id}/artifacts`]: ["get"],
  [`${REPO}/actions/runs/{run_id}/attempts/{attempt_number}/jobs`]: ["get"],
  [`${REPO}/actions/runs/{run_id}/cancel`]: ["post"],
  [`${REPO}/actions/runs/{run_id}/force-cancel`]: ["post"],
  [`${REPO}/actions/runs/{run_id}/jobs`]: ["get"],
  [`${REPO}/actions/runs/{run_id}/logs`]: ["get"],
  [`${REPO}/actions/runs/{run_id}/rerun`]: ["post"],
  [`${REPO}/actions/runs/{run_id}/rerun-failed-jobs`]: ["post"],
  [`${REPO}/actions/secrets`]: ["get"],
  [`${REPO}/actions/secrets/public-key`]: ["get"],
  [`${REPO}/actions/secrets/{secret_name}`]: ["put"],
  [`${REPO}/actions/workflows`]: ["get"],
  [`${REPO}/actions/workflows/{workflow_id}`]: ["get"],
  [`${REPO}/actions/workflows/{workflow_id}/disable`]: ["put"],
  [`${REPO}/actions/workflows/{workflow_id}/dispatches`]: ["post"],
  [`${REPO}/actions/workflows/{workflow_id}/enable`]: ["put"],
  [`${REPO}/actions/workflows/{workflow_id}/runs`]: ["get"],
  [`${REPO}/branches`]: ["get"],
  [`${REPO}/branches/{branch}`]: ["get"],
  [`${REPO}/check-runs/{check_run_id}/annotations`]: ["get"],
  [`${REPO}/comments/{comment_id}`]: ["patch"],
  [`${REPO}/commits`]: ["get"],
  [`${REPO}/commits/{commit_sha}/comments`]: ["get", "post"],
  [`${REPO}/commits/{ref}`]: ["get"],
  [`${REPO}/compare/{basehead}`]: ["get"],
  [`${REPO}/contents/{path}`]: ["get", "put"],
  [`${REPO}/environments/{environment_name}`]: ["get", "put"],
  [`${REPO}/environments/{environment_name}/deployment-branch-policies`]: ["get", "post"],
  [`${REPO}/environments/{environment_name}/secrets`]: ["get"],
  [`${REPO}/environments/{environment_name}/secrets/public-key`]: ["get"],
  [`${REPO}/environments/{environment_name}/secrets/{secret_name}`]: ["put"],
  [`${REPO}/git/blobs/{file_sha}`]: ["get"],
  [`${REPO}/git/matching-refs/{ref}`]: ["get"],
  [`${REPO}/git/ref/{ref}`]: ["get"],
  [`${REPO}/git/refs/{ref}`]: ["delete"],
  [`${REPO}/git/trees/{tree_sha}`]: ["get"],
  [`${REPO}/installation`]: ["get"],
  [`${REPO}/issues`]: ["get", "post"],
  [`${REPO}/issues/comments/{comment_id}`]: ["patch"],
  [`${REPO}/issues/{issue_number}`]: ["get", "patch"],
  [`${REPO}/issues/{issue_number}/comments`]: ["get", "post"],
  [`${REPO}/issues/{issue_number}/labels`]: ["post"],
  [`${REPO}/labels`]: ["get", "post"],
  [`${REPO}/pulls`]: ["get", "post"],
  [`${REPO}/pulls/{pull_number}`]: ["get", "patch"],
  [`${REPO}/rules/branches/{branch}`]: ["get"],
  [`${REPO}/rulesets`]: ["get", "post"],
};

// What errors look like that a route does not document.
const ALSO = ["basic-error", "validation-error", "validation-error-simple"];

const DOCUMENTATION = new Set(["title", "description", "example", "examples", "default", "externalDocs", "deprecated", "discriminator"]);

const [source] = process.argv.slice(2);
if (!source) {
  console.error("usage: extract.mjs api.github.com.json");
  process.exit(2);
}
const github = JSON.parse(readFileSync(source, "utf8"));
const wanted = new Set();

function resolve(value) {
  while (value?.$ref && !value.$ref.startsWith("#/components/schemas/")) {
    value = value.$ref.slice(2).split("/").reduce((at, key) => at[key], github);
  }
  return value;
}

/** A schema of OpenAPI 3.0 as JSON Schema, without documentation. */
function schema(value) {
  if (value.$ref) {
    wanted.add(value.$ref.split("/").at(-1));
    return { $ref: value.$ref };
  }
  const result = {};
  for (const [key, inner] of Object.entries(value)) {
    if (DOCUMENTATION.has(key) || key.startsWith("x-") || key === "nullable") continue;
    if (key === "properties") {
      result.properties = Object.fromEntries(Object.entries(inner).map(([name, property]) => [name, schema(property)]));
    } else if (["allOf", "anyOf", "oneOf"].includes(key)) {
      result[key] = inner.map(schema);
    } else if (["items", "not"].includes(key) || (key === "additionalProperties" && typeof inner === "object")) {
      result[key] = schema(inner);
    } else {
      result[key] = inner;
    }
  }
  if (!value.nullable) return result;
  if (result.type && !result.enum && !result.allOf && !result.anyOf && !result.oneOf) {
    return { ...result, type: [result.type, "null"] };
  }
  return { anyOf: [result, { type: "null" }] };
}

function content(value) {
  const types = Object.entries(value?.content ?? {}).filter(([, media]) => media.schema);
  return Object.fromEntries(types.map(([type, media]) => [type, schema(media.schema)]));
}

function operation(value) {
  const parameters = (value.parameters ?? []).map(resolve).map((parameter) => ({
    name: parameter.name,
    in: parameter.in,
    ...(parameter.required ? { required: true } : {}),
    schema: schema(parameter.schema),
  }));
  const body = resolve(value.requestBody);
  const responses = Object.entries(value.responses).map(([status, response]) => [status, content(resolve(response))]);
  return {
    parameters,
    ...(body ? { body: content(body), ...(body.required ? { body_required: true } : {}) } : {}),
    responses: Object.fromEntries(responses),
  };
}

const routes = [];
for (const path of Object.keys(ROUTES).sort()) {
  for (const method of ROUTES[path]) {
    const found = github.paths[path]?.[method];
    if (!found) throw new Error(`GitHub has no ${method} ${path}`);
    routes.push([`${method.toUpperCase()} ${path}`, operation(found)]);
  }
}

for (const name of ALSO) wanted.add(name);
const schemas = new Map();
for (const name of wanted) {
  // The set grows while it is walked: a schema may need others.
  schemas.set(name, schema(github.components.schemas[name]));
}

const lines = (entries) => entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(",\n");
const text = `{"version":${JSON.stringify(github.info.version)},"routes":{
${lines(routes)}
},"components":{"schemas":{
${lines([...schemas].sort(([a], [b]) => (a < b ? -1 : 1)))}
}}}
`;
JSON.parse(text);
const target = join(dirname(fileURLToPath(import.meta.url)), "../../../fixtures/github/openapi.json");
writeFileSync(target, text);
console.error(`${target}: ${routes.length} routes, ${schemas.size} schemas, ${text.length} bytes`);
