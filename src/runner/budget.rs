//! The budget: no call starts that could cost more than is left.
//!
//! Each call in flight reserves its maximum cost: one token per byte of its prompt, and all output that
//! `max_tokens` allows. Earlier responses do not lower the reservation, because a batch may start with
//! short ones. If a response costs more than its reservation, all later calls reserve proportionally more.

use crate::model::{Price, TokenUsage};

/// The budget and its reservations.
#[derive(Debug)]
pub(super) struct Budget {
    limits: Option<(f64, Price)>,
    held: f64,
    /// Cost of calls that may be billed but have no row.
    lost: f64,
    /// Highest ratio of actual cost to reservation so far.
    stretch: f64,
}

impl Budget {
    /// A budget; without a price nothing can be counted, so there is no limit.
    pub(super) fn new(budget_usd: Option<f64>, price: Option<Price>) -> Self {
        Self { limits: budget_usd.zip(price), held: 0.0, lost: 0.0, stretch: 1.0 }
    }

    /// Maximum cost of a call with this many tokens.
    pub(super) fn most(&self, tokens: TokenUsage) -> f64 {
        self.limits.map_or(0.0, |(_, price)| price.cost(tokens) * self.stretch)
    }

    /// What is left for one more call, given the cost of all rows.
    pub(super) fn left(&self, spent: f64) -> f64 {
        self.limits.map_or(f64::INFINITY, |(budget, _)| budget - spent - self.lost - self.held)
    }

    /// Whether a call with this many tokens could exceed the budget.
    pub(super) fn refuses(&self, spent: f64, tokens: TokenUsage) -> bool {
        let left = self.left(spent);
        self.most(tokens) > left || left <= 0.0
    }

    /// Reserves the cost of a starting call. The caller releases it when the call ends.
    pub(super) fn hold(&mut self, tokens: TokenUsage) -> f64 {
        let most = self.most(tokens);
        self.held += most;
        most
    }

    /// Releases the reservation of a call with a response, whose cost is in its row.
    pub(super) fn answered(&mut self, held: f64, tokens: TokenUsage, cost: Option<f64>) {
        self.give_back(held);
        if let (Some((_, price)), Some(cost)) = (self.limits, cost) {
            let foreseen = price.cost(tokens);
            if foreseen > 0.0 {
                self.stretch = self.stretch.max(cost / foreseen);
            }
        }
    }

    /// Releases the reservation of a failed call, which the provider may still bill.
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
    fn calls_in_flight_reserve_their_maximum_cost() {
        let mut budget = Budget::new(Some(10.0), Some(PRICE));
        assert!(budget.refuses(0.0, tokens(4, 7)), "the first one too");
        let held = budget.hold(tokens(2, 3));
        assert!(!budget.refuses(0.0, tokens(2, 3)) && budget.refuses(0.0, tokens(2, 4)));
        budget.answered(held, tokens(2, 3), Some(1.0));
        assert!(!budget.refuses(1.0, tokens(2, 7)), "what it did not cost is free again");
        assert!(budget.refuses(1.0, tokens(2, 8)), "a cheap answer says nothing of the next one");
    }

    #[test]
    fn possible_charges_count_as_spent() {
        let mut budget = Budget::new(Some(10.0), Some(PRICE));
        let (refused, lost) = (budget.hold(tokens(1, 3)), budget.hold(tokens(1, 4)));
        budget.failed(refused, false);
        budget.failed(lost, true);
        assert!((budget.left(0.0) - 5.0).abs() < 1e-9, "{budget:?}");
    }

    #[test]
    fn an_answer_above_its_reservation_raises_all_reservations() {
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
