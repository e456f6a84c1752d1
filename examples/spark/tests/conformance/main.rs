//! The rules of Spark and the cases of the pools, which the crate's own tests run over its model,
//! over the real Spark: so that the model cannot drift from what it stands for.

#[path = "../../../../tests/spark/cases.rs"]
mod cases;
#[path = "../../../../tests/spark/rules.rs"]
mod rules;
#[path = "../../../../tests/spark/storm.rs"]
mod storm;
#[path = "../../../../tests/spark/subject.rs"]
mod subject;
#[path = "../../../../tests/spark/watchdog.rs"]
mod watchdog;

mod plugin;
mod spark;
mod throwables;

macro_rules! tests_over_both {
    ($module:ident: $($case:ident)*) => {
        mod $module {
            $(
                mod $case {
                    #[test]
                    fn model() {
                        crate::subject::Stage::run(crate::$module::model, crate::$module::$case);
                    }

                    #[test]
                    fn spark() {
                        crate::spark::run(crate::$module::$case);
                    }
                }
            )*
        }
    };
}

mod over_both {
    crate::cases::for_each_case!(tests_over_both);
    crate::rules::for_each_rule!(tests_over_both);
    crate::storm::for_each_storm!(tests_over_both);
}
