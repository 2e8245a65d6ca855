//! The budget: no call starts that could cost more than is left, whatever the batch asks for.
//!
//! Each call in flight holds the most that it can cost: every byte of its prompt a token, and all the output that its
//! `max_tokens` allows. Answers so far do not lower that: what comes first may be short, and what comes then long. Where an
//! answer costs more than was held for it, all later calls hold as much more.

use crate::model::{Price, TokenUsage};

/// What may be spent, and what of it calls in flight hold.
#[derive(Debug)]
pub(super) struct Budget {
    limits: Option<(f64, Price)>,
    held: f64,
    /// What was called for and may be on the bill, but in no row.
    lost: f64,
    /// How many times what was held an answer has cost, at worst.
    stretch: f64,
}

impl Budget {
    /// A budget; without a price nothing could be counted, so that there is none.
    pub(super) fn new(budget_usd: Option<f64>, price: Option<Price>) -> Self {
        Self { limits: budget_usd.zip(price), held: 0.0, lost: 0.0, stretch: 1.0 }
    }

    /// The most that a call of so many tokens can cost.
    pub(super) fn most(&self, tokens: TokenUsage) -> f64 {
        self.limits.map_or(0.0, |(_, price)| price.cost(tokens) * self.stretch)
    }

    /// What is left for one more call, when rows say that so much was spent.
    pub(super) fn left(&self, spent: f64) -> f64 {
        self.limits.map_or(f64::INFINITY, |(budget, _)| budget - spent - self.lost - self.held)
    }

    /// Whether one more call of so many tokens could cost more than is left.
    pub(super) fn refuses(&self, spent: f64, tokens: TokenUsage) -> bool {
        let left = self.left(spent);
        self.most(tokens) > left || left <= 0.0
    }

    /// A call starts; what it holds must be given back when it has ended.
    pub(super) fn hold(&mut self, tokens: TokenUsage) -> f64 {
        let most = self.most(tokens);
        self.held += most;
        most
    }

    /// A call has ended with an answer, which is in a row.
    pub(super) fn answered(&mut self, held: f64, tokens: TokenUsage, cost: Option<f64>) {
        self.give_back(held);
        if let (Some((_, price)), Some(cost)) = (self.limits, cost) {
            let foreseen = price.cost(tokens);
            if foreseen > 0.0 {
                self.stretch = self.stretch.max(cost / foreseen);
            }
        }
    }

    /// A call has ended without an answer; the vendor may have worked on it all the same.
    pub(super) fn failed(&mut self, held: f64, may_be_billed: bool) {
        self.give_back(held);
        if may_be_billed {
            self.lost += held;
        }
    }

    fn give_back(&mut self, held: f64) {
        self.held = (self.held - held).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price { input_per_mtok: 1e6, output_per_mtok: 1e6, cached_input_per_mtok: None };

    fn tokens(input: u64, output: u64) -> TokenUsage {
        TokenUsage { input, output, ..TokenUsage::default() }
    }

    #[test]
    fn calls_in_flight_hold_the_most_that_they_can_cost() {
        let mut budget = Budget::new(Some(10.0), Some(PRICE));
        assert!(budget.refuses(0.0, tokens(4, 7)), "the first one too");
        let held = budget.hold(tokens(2, 3));
        assert!(!budget.refuses(0.0, tokens(2, 3)) && budget.refuses(0.0, tokens(2, 4)));
        budget.answered(held, tokens(2, 3), Some(1.0));
        assert!(!budget.refuses(1.0, tokens(2, 7)), "what it did not cost is free again");
        assert!(budget.refuses(1.0, tokens(2, 8)), "a cheap answer says nothing of the next one");
    }

    #[test]
    fn what_may_be_on_the_bill_is_spent() {
        let mut budget = Budget::new(Some(10.0), Some(PRICE));
        let (refused, lost) = (budget.hold(tokens(1, 3)), budget.hold(tokens(1, 4)));
        budget.failed(refused, false);
        budget.failed(lost, true);
        assert!((budget.left(0.0) - 5.0).abs() < 1e-9, "{budget:?}");
    }

    #[test]
    fn an_answer_beyond_what_was_held_makes_all_others_hold_more() {
        let mut budget = Budget::new(Some(100.0), Some(PRICE));
        let held = budget.hold(tokens(1, 4));
        budget.answered(held, tokens(1, 4), Some(20.0));
        assert!((budget.most(tokens(1, 9)) - 40.0).abs() < 1e-9, "{budget:?}");
    }

    #[test]
    fn without_a_budget_nothing_is_refused() {
        let mut budget = Budget::new(None, Some(PRICE));
        assert!(budget.hold(tokens(u64::MAX, 1)) <= 0.0);
        assert!(!budget.refuses(1e9, tokens(1, 1)));
    }
}
