//! Compiles a syntax tree to the steps of the machine.

use super::class::Class;
use super::parse::{Node, Parsed};
use super::{Flags, InvalidPattern, fold};

/// Limit of the program's length: `(a{1000}){1000}` is unrolled.
const LONGEST: usize = 200_000;

/// One step. With `behind`, it matches the character before the position instead of the one after it.
#[derive(Debug)]
pub(super) enum Step {
    One {
        one: One,
        behind: bool,
    },
    /// A run of characters: the longest first if `greedy`, otherwise the shortest.
    Run {
        one: One,
        min: usize,
        max: usize,
        greedy: bool,
        behind: bool,
    },
    Start,
    End,
    Boundary {
        negated: bool,
    },
    /// Saves the position.
    Save(usize),
    /// Fails if the position is the saved one.
    Moved(usize),
    /// Resets these saved positions.
    Forget(std::ops::Range<usize>),
    /// Tries one branch, then the other.
    Split {
        first: usize,
        second: usize,
    },
    Jump(usize),
    /// Runs the steps that follow as a lookaround; continues at `after`.
    Look {
        negated: bool,
        after: usize,
    },
    /// A backreference.
    Back {
        group: usize,
        behind: bool,
    },
    Match,
}

/// A condition on one character.
#[derive(Debug)]
pub(super) enum One {
    Char(u32),
    Any,
    Class(Class),
}

/// The steps, and the number of positions that they save.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) places: usize,
}

struct Writer {
    steps: Vec<Step>,
    places: usize,
    ignore_case: bool,
    unicode: bool,
}

impl Program {
    /// Compiles a tree.
    pub(super) fn new(parsed: &Parsed, flags: Flags) -> Result<Self, InvalidPattern> {
        let mut writer = Writer {
            steps: Vec::new(),
            places: 2 * (parsed.groups + 1),
            ignore_case: flags.ignore_case,
            unicode: flags.unicode,
        };
        writer.write(&parsed.node, false)?;
        writer.push(Step::Match)?;
        Ok(Self { steps: writer.steps, places: writer.places })
    }
}

impl Writer {
    fn push(&mut self, step: Step) -> Result<usize, InvalidPattern> {
        if self.steps.len() >= LONGEST {
            return Err(InvalidPattern::new(
                "the pattern is too large: a repetition of repetitions multiplies it",
            ));
        }
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    /// The condition of a node that matches exactly one character.
    fn one(&self, node: &Node) -> Option<One> {
        Some(match node {
            Node::Char(unit) if self.ignore_case => One::Char(fold(*unit, self.unicode)),
            Node::Char(unit) => One::Char(*unit),
            Node::Any => One::Any,
            Node::Class(class) => One::Class(class.clone()),
            Node::Sequence(nodes) if nodes.len() == 1 => return self.one(&nodes[0]),
            _ => return None,
        })
    }

    fn write(&mut self, node: &Node, behind: bool) -> Result<(), InvalidPattern> {
        if let Some(one) = self.one(node) {
            return self.push(Step::One { one, behind }).map(drop);
        }
        let step = match node {
            Node::Start => Step::Start,
            Node::End => Step::End,
            Node::Boundary { negated } => Step::Boundary { negated: *negated },
            Node::Back(group) => Step::Back { group: *group, behind },
            Node::Group(node, number) => {
                let (begin, end) = (2 * number, 2 * number + 1);
                let (first, last) = if behind { (end, begin) } else { (begin, end) };
                self.push(Step::Save(first))?;
                self.write(node, behind)?;
                Step::Save(last)
            }
            Node::Sequence(nodes) => {
                return if behind {
                    nodes.iter().rev().try_for_each(|node| self.write(node, behind))
                } else {
                    nodes.iter().try_for_each(|node| self.write(node, behind))
                };
            }
            Node::Either(nodes) => return self.write_either(nodes, behind),
            Node::Look { node, ahead, negated } => {
                let look = self.push(Step::Look { negated: *negated, after: 0 })?;
                self.write(node, !ahead)?;
                self.push(Step::Match)?;
                let end = self.steps.len();
                if let Step::Look { after, .. } = &mut self.steps[look] {
                    *after = end;
                }
                return Ok(());
            }
            Node::Empty | Node::Char(_) | Node::Any | Node::Class(_) => return Ok(()),
            Node::Repeat { node, min, max, greedy, groups } => {
                if let Some(one) = self.one(node) {
                    let (min, max) = (*min as usize, max.map_or(usize::MAX, |max| max as usize));
                    return self.push(Step::Run { one, min, max, greedy: *greedy, behind }).map(drop);
                }
                let forget = 2 * groups.start..2 * groups.end;
                return self.write_repeat(node, (*min, *max), *greedy, &forget, behind);
            }
        };
        self.push(step).map(drop)
    }

    fn write_either(&mut self, nodes: &[Node], behind: bool) -> Result<(), InvalidPattern> {
        let mut jumps = Vec::new();
        for (position, node) in nodes.iter().enumerate() {
            if position + 1 == nodes.len() {
                self.write(node, behind)?;
                break;
            }
            let split = self.push(Step::Split { first: self.steps.len() + 1, second: 0 })?;
            self.write(node, behind)?;
            jumps.push(self.push(Step::Jump(0))?);
            let next = self.steps.len();
            if let Step::Split { second, .. } = &mut self.steps[split] {
                *second = next;
            }
        }
        let end = self.steps.len();
        for jump in jumps {
            self.steps[jump] = Step::Jump(end);
        }
        Ok(())
    }

    fn write_repeat(
        &mut self,
        node: &Node,
        (min, max): (u32, Option<u32>),
        greedy: bool,
        forget: &std::ops::Range<usize>,
        behind: bool,
    ) -> Result<(), InvalidPattern> {
        for _ in 0..min {
            self.write_round(node, forget, behind)?;
        }
        let place = self.places;
        self.places += 1;
        let mut splits = Vec::new();
        for _ in 0..max.map_or(1, |max| max - min) {
            splits.push(self.push(Step::Split { first: 0, second: 0 })?);
            // An optional iteration that matches nothing would loop forever.
            self.push(Step::Save(place))?;
            self.write_round(node, forget, behind)?;
            self.push(Step::Moved(place))?;
        }
        if max.is_none() {
            let loop_start = splits[0];
            self.push(Step::Jump(loop_start))?;
        }
        let end = self.steps.len();
        for split in splits {
            let (first, second) = if greedy { (split + 1, end) } else { (end, split + 1) };
            self.steps[split] = Step::Split { first, second };
        }
        Ok(())
    }

    fn write_round(
        &mut self,
        node: &Node,
        forget: &std::ops::Range<usize>,
        behind: bool,
    ) -> Result<(), InvalidPattern> {
        if !forget.is_empty() {
            self.push(Step::Forget(forget.clone()))?;
        }
        self.write(node, behind)
    }
}
