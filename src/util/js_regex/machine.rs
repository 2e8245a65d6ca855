//! A backtracking matcher that counts its steps.

use super::class::{ends_line, is_word};
use super::program::{One, Program, Step};
use super::{Flags, TooManySteps, fold};

/// Limit of the backtracking stack: a match in a text of megabytes may itself have megabytes.
const MOST_UNDO: usize = 4_000_000;

/// An entry of the backtracking stack.
#[derive(Debug)]
enum Undo {
    /// An untried alternative.
    Alternative { step: usize, at: usize },
    /// Shorter runs, down to `left` characters less.
    Shorter { step: usize, at: usize, left: usize, behind: bool },
    /// Longer runs, by at most `left` characters.
    Longer { run: usize, at: usize, left: usize },
    /// The previous value of a saved position.
    Saved { place: usize, was: Option<usize> },
}

/// One match of a program against a text.
pub(super) struct Machine<'p> {
    program: &'p Program,
    flags: Flags,
    text: &'p [u32],
    places: Vec<Option<usize>>,
    undo: Vec<Undo>,
    steps: u64,
    limit: u64,
}

impl<'p> Machine<'p> {
    /// A machine that fails after `limit` steps.
    pub(super) fn new(program: &'p Program, flags: Flags, text: &'p [u32], limit: u64) -> Self {
        let places = vec![None; program.places];
        Self { program, flags, text, places, undo: Vec::new(), steps: 0, limit }
    }

    /// Whether the program matches anywhere; with the flag `y`, only at the start.
    pub(super) fn search(mut self) -> Result<bool, TooManySteps> {
        let only_first = matches!(self.program.steps[0], Step::Start) && !self.flags.multiline;
        let last = if self.flags.sticky || only_first { 0 } else { self.text.len() };
        for start in 0..=last {
            // A failed run has undone all its changes.
            if self.run(0, start)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs from a step; returns the end of the match.
    fn run(&mut self, mut step: usize, mut at: usize) -> Result<Option<usize>, TooManySteps> {
        let base = self.undo.len();
        loop {
            self.steps += 1;
            if self.steps > self.limit || self.undo.len() > MOST_UNDO {
                return Err(TooManySteps(self.limit));
            }
            let program = self.program;
            let next = match &program.steps[step] {
                Step::Match => return Ok(Some(at)),
                Step::One { one, behind } => self.take(at, one, *behind),
                Step::Run { one, min, max, greedy, behind } => {
                    self.run_of(step, at, one, (*min, *max), *greedy, *behind)
                }
                Step::Start => here_if(at, at == 0 || self.flags.multiline && ends_line(self.text[at - 1])),
                Step::End => {
                    let is_end =
                        self.text.get(at).is_none_or(|unit| self.flags.multiline && ends_line(*unit));
                    here_if(at, is_end)
                }
                Step::Boundary { negated } => {
                    let Flags { ignore_case, unicode, .. } = self.flags;
                    let is_word =
                        |unit: Option<&u32>| unit.is_some_and(|unit| is_word(*unit, ignore_case, unicode));
                    let before = is_word(at.checked_sub(1).and_then(|at| self.text.get(at)));
                    here_if(at, (before != is_word(self.text.get(at))) != *negated)
                }
                Step::Save(place) => {
                    self.remember(*place, Some(at));
                    Some(at)
                }
                Step::Moved(place) => here_if(at, self.places[*place] != Some(at)),
                Step::Forget(places) => {
                    for place in places.clone() {
                        self.remember(place, None);
                    }
                    Some(at)
                }
                Step::Split { first, second } => {
                    self.undo.push(Undo::Alternative { step: *second, at });
                    step = *first;
                    continue;
                }
                Step::Jump(to) => {
                    step = *to;
                    continue;
                }
                Step::Look { negated, after } => {
                    let depth = self.undo.len();
                    let found = self.run(step + 1, at)?.is_some();
                    if found && !negated {
                        // Captures of the lookaround stay; its untried alternatives are dropped.
                        let mut kept = depth;
                        for i in depth..self.undo.len() {
                            if matches!(self.undo[i], Undo::Saved { .. }) {
                                self.undo.swap(kept, i);
                                kept += 1;
                            }
                        }
                        self.undo.truncate(kept);
                    } else {
                        while self.undo.len() > depth {
                            self.undo_one();
                        }
                    }
                    if found == *negated {
                        None
                    } else {
                        step = *after;
                        continue;
                    }
                }
                Step::Back { group, behind } => self.backreference(at, *group, *behind),
            };
            if let Some(position) = next {
                at = position;
                step += 1;
                continue;
            }
            // Backtrack to the last untried alternative.
            loop {
                if self.undo.len() == base {
                    return Ok(None);
                }
                if let Some((other, position)) = self.undo_one() {
                    (step, at) = (other, position);
                    break;
                }
            }
        }
    }

    /// Pops one entry; returns the alternative to try, if there is one.
    fn undo_one(&mut self) -> Option<(usize, usize)> {
        match self.undo.pop()? {
            Undo::Alternative { step, at } => Some((step, at)),
            Undo::Saved { place, was } => {
                self.places[place] = was;
                None
            }
            Undo::Shorter { step, at, left, behind } => {
                let shorter = if behind { at + 1 } else { at - 1 };
                if left > 1 {
                    self.undo.push(Undo::Shorter { step, at: shorter, left: left - 1, behind });
                }
                Some((step, shorter))
            }
            Undo::Longer { run, at, left } => {
                let program = self.program;
                let Step::Run { one, behind, .. } = &program.steps[run] else { return None };
                let longer = self.take(at, one, *behind)?;
                if left > 1 {
                    self.undo.push(Undo::Longer { run, at: longer, left: left - 1 });
                }
                Some((run + 1, longer))
            }
        }
    }

    /// Matches a run of characters, and pushes its shorter or longer variants.
    fn run_of(
        &mut self,
        step: usize,
        mut at: usize,
        one: &One,
        (min, max): (usize, usize),
        greedy: bool,
        behind: bool,
    ) -> Option<usize> {
        let most = if greedy { max } else { min };
        let mut taken = 0;
        while taken < most {
            let Some(next) = self.take(at, one, behind) else { break };
            (at, taken) = (next, taken + 1);
        }
        self.steps += taken as u64;
        if taken < min {
            return None;
        }
        if greedy && taken > min {
            self.undo.push(Undo::Shorter { step: step + 1, at, left: taken - min, behind });
        } else if !greedy && max > min {
            self.undo.push(Undo::Longer { run: step, at, left: max - min });
        }
        Some(at)
    }

    fn remember(&mut self, place: usize, position: Option<usize>) {
        let was = std::mem::replace(&mut self.places[place], position);
        if was != position {
            self.undo.push(Undo::Saved { place, was });
        }
    }

    /// Matches one character.
    fn take(&self, at: usize, one: &One, behind: bool) -> Option<usize> {
        let (found, next) = if behind {
            let before = at.checked_sub(1)?;
            (self.text[before], before)
        } else {
            (*self.text.get(at)?, at + 1)
        };
        let Flags { ignore_case, unicode, dot_all, .. } = self.flags;
        let is_right = match one {
            One::Char(unit) => found == *unit || ignore_case && fold(found, unicode) == *unit,
            One::Any => dot_all || !ends_line(found),
            One::Class(class) => class.has(found, ignore_case, unicode),
        };
        is_right.then_some(next)
    }

    /// Matches a backreference. A group without a match matches the empty text.
    fn backreference(&mut self, at: usize, group: usize, behind: bool) -> Option<usize> {
        let (Some(begin), Some(end)) = (self.places[2 * group], self.places[2 * group + 1]) else {
            return Some(at);
        };
        let length = end - begin;
        self.steps += length as u64;
        let start = if behind { at.checked_sub(length)? } else { at };
        let here = self.text.get(start..start + length)?;
        let same = |a: &u32, b: &u32| {
            a == b || self.flags.ignore_case && fold(*a, self.flags.unicode) == fold(*b, self.flags.unicode)
        };
        let is_same = here.iter().zip(&self.text[begin..end]).all(|(a, b)| same(a, b));
        is_same.then_some(if behind { start } else { at + length })
    }
}

/// The position, if the condition holds.
fn here_if(at: usize, is: bool) -> Option<usize> {
    is.then_some(at)
}
