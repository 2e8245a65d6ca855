//! The assignment problem: match rows to columns at the lowest total cost.

/// The column of each row. Requires at most as many rows as columns. The Hungarian algorithm with potentials, in time
/// rows² × columns. Ties are broken deterministically.
pub(super) fn lowest(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> i128) -> Vec<usize> {
    debug_assert!(rows <= columns, "the caller swaps the sides");
    // Row and column 0 are sentinels.
    let (mut of_row, mut of_column) = (vec![0_i128; rows + 1], vec![0_i128; columns + 1]);
    let mut row_of = vec![0_usize; columns + 1];
    for row in 1..=rows {
        let (mut slack, mut seen) = (vec![i128::MAX; columns + 1], vec![false; columns + 1]);
        let mut from = vec![0_usize; columns + 1];
        (row_of[0], seen[0]) = (row, true);
        let mut column = 0;
        while row_of[column] != 0 {
            seen[column] = true;
            let at = row_of[column];
            let (mut least, mut next) = (i128::MAX, 0);
            for other in (1..=columns).filter(|other| !seen[*other]) {
                let reduced = cost(at - 1, other - 1) - of_row[at] - of_column[other];
                if reduced < slack[other] {
                    (slack[other], from[other]) = (reduced, column);
                }
                if slack[other] < least {
                    (least, next) = (slack[other], other);
                }
            }
            for other in 0..=columns {
                if seen[other] {
                    of_row[row_of[other]] += least;
                    of_column[other] -= least;
                } else if other > 0 {
                    slack[other] -= least;
                }
            }
            column = next;
        }
        // Follow the path back, and move every row on it by one column.
        while column != 0 {
            row_of[column] = row_of[from[column]];
            column = from[column];
        }
    }
    let mut columns_of = vec![0; rows];
    for (column, row) in row_of.iter().enumerate().skip(1).filter(|(_, row)| **row > 0) {
        columns_of[row - 1] = column - 1;
    }
    columns_of
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By brute force.
    fn brute(
        rows: usize,
        columns: usize,
        cost: &dyn Fn(usize, usize) -> i128,
        taken: &mut Vec<usize>,
    ) -> i128 {
        if taken.len() == rows {
            return 0;
        }
        let row = taken.len();
        let mut best = i128::MAX;
        for column in 0..columns {
            if !taken.contains(&column) {
                taken.push(column);
                best = best.min(cost(row, column) + brute(rows, columns, cost, taken));
                taken.pop();
            }
        }
        best
    }

    proptest! {
        #[test]
        fn no_assignment_is_cheaper(
            (rows, costs) in (1_usize..5).prop_flat_map(|rows| {
                (Just(rows), proptest::collection::vec(-9_i128..9, rows * 6))
            }),
            extra in 0_usize..2,
        ) {
            let columns = rows + extra;
            let cost = |row: usize, column: usize| costs[row * 6 + column];
            let found = lowest(rows, columns, cost);
            let mut distinct = found.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), rows);
            let sum: i128 = found.iter().enumerate().map(|(row, column)| cost(row, *column)).sum();
            prop_assert_eq!(sum, brute(rows, columns, &cost, &mut Vec::new()));
        }
    }

    #[test]
    fn nothing_is_assigned_to_nothing() {
        assert_eq!(lowest(0, 3, |_, _| 0), Vec::<usize>::new());
        assert_eq!(lowest(2, 3, |_, _| 0), [0, 1]);
    }
}
