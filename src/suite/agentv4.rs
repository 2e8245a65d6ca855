//! The keys of a suite in AgentV 4. For a new key, add a row here and the code that reads its value.

use super::dialect::Part::{
    Assertions, Cache, Data, Execution, Expected, Id, Input, InputFiles, Preprocessors, Target, Targets,
    Tests, Turns, Vars, Workspace,
};
use super::dialect::{Dialect, Keys};

/// The only supported dialect so far.
pub static AGENTV_4: Dialect = Dialect {
    suite: Keys {
        current: &[
            ("name", Data),
            ("description", Data),
            ("category", Data),
            ("version", Data),
            ("author", Data),
            ("tags", Data),
            ("license", Data),
            ("requires", Data),
            ("metadata", Data),
            ("governance", Data),
            ("input", Input),
            ("input_files", InputFiles),
            ("tools", Data),
            ("tests", Tests),
            ("target", Target),
            ("execution", Execution),
            ("assertions", Assertions),
            ("preprocessors", Preprocessors),
            ("workspace", Workspace),
            ("$schema", Data),
        ],
        old: &[
            ("eval_cases", Tests),
            ("evalcases", Tests),
            ("assert", Assertions),
            ("evaluators", Assertions),
            ("evaluator", Data),
        ],
    },
    test: Keys {
        current: &[
            ("id", Id),
            ("vars", Vars),
            ("criteria", Data),
            ("input", Input),
            ("input_files", InputFiles),
            ("tools", Data),
            ("expected_output", Expected),
            ("assertions", Assertions),
            ("rubrics", Data),
            ("execution", Execution),
            ("workspace", Workspace),
            ("metadata", Data),
            ("conversation_id", Data),
            ("suite", Data),
            ("depends_on", Data),
            ("mode", Data),
            ("turns", Turns),
        ],
        old: &[
            ("assert", Assertions),
            ("evaluators", Assertions),
            ("evaluator", Data),
            ("expected_outcome", Data),
            // Settings of conversations and dependencies, which only AgentV runs.
            ("on_dependency_failure", Data),
            ("aggregation", Data),
            ("on_turn_failure", Data),
            ("window_size", Data),
        ],
    },
    execution: Keys {
        current: &[
            ("target", Target),
            ("targets", Targets),
            ("workers", Data),
            ("assertions", Assertions),
            ("assert", Assertions),
            ("evaluators", Assertions),
            ("skip_defaults", Data),
            ("cache", Data),
            ("cache_path", Cache),
            ("trials", Data),
            ("budget_usd", Data),
            ("fail_on_error", Data),
            ("threshold", Data),
        ],
        old: &[
            ("failOnError", Data),
            ("budgetUsd", Data),
            ("total_budget_usd", Data),
            ("totalBudgetUsd", Data),
        ],
    },
    test_execution: Keys {
        current: &[
            ("targets", Targets),
            ("skip_defaults", Data),
            ("evaluators", Assertions),
            ("threshold", Data),
        ],
        old: &[],
    },
    beside_lines: &["name", "description", "execution", "evaluator"],
};
