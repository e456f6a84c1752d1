//! Runs every model.

use counting_pool_loom::models;

#[test]
fn sizes_that_fit_are_counted_exactly() {
    models::sizes_that_fit_are_counted_exactly();
}

#[test]
fn a_count_that_strays_to_a_new_size_is_within_the_error() {
    models::a_count_that_strays_to_a_new_size_is_within_the_error();
}

#[test]
fn two_new_sizes_at_once_keep_their_bounds() {
    models::two_new_sizes_at_once_keep_their_bounds();
}

#[test]
fn the_same_new_size_twice_at_once_keeps_its_bounds() {
    models::the_same_new_size_twice_at_once_keeps_its_bounds();
}

#[test]
fn a_level_ends_exact_and_its_peak_is_one_that_was() {
    models::a_level_ends_exact_and_its_peak_is_one_that_was();
}

#[test]
fn what_is_released_too_much_is_told_apart_to_the_byte() {
    models::what_is_released_too_much_is_told_apart_to_the_byte();
}

#[test]
fn a_number_is_found_while_the_table_grows() {
    models::a_number_is_found_while_the_table_grows();
}

#[test]
fn consumers_come_count_and_go_and_nothing_is_lost() {
    models::consumers_come_count_and_go_and_nothing_is_lost();
}

#[test]
fn no_more_is_shown_as_released_than_as_acquired() {
    models::no_more_is_shown_as_released_than_as_acquired();
}
