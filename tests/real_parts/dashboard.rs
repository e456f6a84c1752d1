//! The expressions of the Grafana dashboard.

use serde_json::{Value, json};

use crate::programs::run;
use crate::{kept, shipped};

/// Every expression, with the title of its panel.
fn expressions() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(shipped("prometheus/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut expressions = vec![];
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            expressions.push((title.to_owned(), expression.to_owned()));
        }
    }
    assert!(expressions.len() >= panels.len(), "a panel shows nothing");
    expressions
}

/// As Grafana would send them: over this window, with everything selected.
pub(crate) fn queries(window: &str) -> Vec<(String, String)> {
    let filled_in = |expression: String| {
        let expression = ["$__rate_interval", "$__range"]
            .iter()
            .fold(expression, |expression, variable| {
                expression.replace(variable, window)
            });
        let expression = ["$job", "$pool", "$consumer"]
            .iter()
            .fold(expression, |expression, variable| {
                expression.replace(variable, ".*")
            });
        assert!(
            !expression.contains("\"$") || expression.contains("\"$1\""),
            "{expression}"
        );
        expression
    };
    expressions()
        .into_iter()
        .map(|(title, expression)| (title, filled_in(expression)))
        .collect()
}

#[test]
#[ignore = "needs promtool"]
fn every_expression_is_promql() {
    let queries = queries("1m");
    let rules: Vec<_> = queries
        .iter()
        .enumerate()
        .map(
            |(i, (_, query))| json!({"record": format!("dashboard:expression:{i}"), "expr": query}),
        )
        .collect();
    // JSON is YAML, too.
    let file = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    let path = kept().join("dashboard-rules.yml");
    std::fs::write(&path, file.to_string()).unwrap();
    let said = run(
        "promtool",
        ["check".as_ref(), "rules".as_ref(), path.as_os_str()],
        "",
    );
    assert!(said.content, "{}", said.text);
    println!(
        "promtool check rules: all {} expressions of the dashboard",
        queries.len()
    );
}
