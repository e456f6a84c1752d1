//! The operator behind a consumer's name.

/// The name of the operator that a consumer belongs to: what stands before the first of
/// `[ ( { <`, trimmed. A name that starts with one of these is kept whole; an empty one is
/// `unnamed`.
///
/// ```
/// use datafusion_counting_pool::operator_name;
///
/// assert_eq!(operator_name("ExternalSorter[3]"), "ExternalSorter");
/// assert_eq!(operator_name("GroupedHashAggregateStream[6] (count(1))"), "GroupedHashAggregateStream");
/// assert_eq!(operator_name("HashJoinInput"), "HashJoinInput");
/// ```
pub fn operator_name(consumer: &str) -> &str {
    let consumer = consumer.trim();
    let before = consumer
        .split(['[', '(', '{', '<'])
        .next()
        .unwrap_or(consumer)
        .trim();
    match (before, consumer) {
        ("", "") => "unnamed",
        ("", whole) => whole,
        (operator, _) => operator,
    }
}

#[cfg(test)]
mod tests {
    use super::operator_name;

    #[test]
    fn is_what_stands_before_the_first_bracket() {
        for (consumer, operator) in [
            ("ExternalSorter[3]", "ExternalSorter"),
            ("RepartitionExec[Merge 3]", "RepartitionExec"),
            ("NestedLoopJoinLoad[fallback]", "NestedLoopJoinLoad"),
            ("HashJoinInput", "HashJoinInput"),
            (
                "GroupedHashAggregateStream[6] (count(1), sum(a))",
                "GroupedHashAggregateStream",
            ),
            ("Window {a < 3}", "Window"),
            ("cast<int>(a)", "cast"),
            (" spaced out [1]", "spaced out"),
            ("[3] first", "[3] first"),
            ("(a)", "(a)"),
            ("", "unnamed"),
            ("  ", "unnamed"),
            ("Größe[1]", "Größe"),
        ] {
            assert_eq!(operator_name(consumer), operator, "{consumer:?}");
        }
    }
}
