//! Where the boxes of a picture stand: in rows, each below what comes before it, so that no line crosses a box.
//!
//! A line that passes a row has a place of its own there, a lane, as if it were a narrow box. Each row is sorted by
//! where the neighbours in the row above or below stand. Then each box goes as near to its neighbours as the others in
//! its row let it.

use std::collections::BTreeMap;

/// The free space between two boxes of a row.
const GAP: i64 = 24;
/// The width of a lane.
const LANE: i64 = 8;
/// How often rows are sorted downwards and upwards.
const ROUNDS: usize = 4;

/// A box, or a lane of a line.
struct Place {
    row: usize,
    width: i64,
    center: i64,
    above: Vec<usize>,
    below: Vec<usize>,
}

/// Where everything stands.
pub(super) struct Layout {
    /// The middle of each box, from the left edge of the leftmost one.
    pub(super) centers: Vec<i64>,
    /// The lanes of each line, from the top: row and middle.
    pub(super) lanes: Vec<Vec<(usize, i64)>>,
    /// How wide all of it is.
    pub(super) width: i64,
}

/// Places `boxes`, each with its row and its width. Each line leads from a box to one in a row below.
pub(super) fn arranged(boxes: &[(usize, i64)], lines: &[(usize, usize)]) -> Layout {
    let mut arrangement = Arrangement::default();
    for (row, width) in boxes {
        arrangement.add(*row, *width);
    }
    let lanes: Vec<Vec<usize>> = lines
        .iter()
        .map(|(from, to)| arrangement.connect(*from, *to))
        .collect();
    arrangement.sort();
    arrangement.settle();
    let places = &arrangement.places;
    let left = places.iter().map(Place::left).min().unwrap_or(0);
    let right = places.iter().map(Place::right).max().unwrap_or(0);
    let lane = |index: &usize| (places[*index].row, places[*index].center - left);
    Layout {
        centers: places[..boxes.len()]
            .iter()
            .map(|place| place.center - left)
            .collect(),
        lanes: lanes
            .iter()
            .map(|lanes| lanes.iter().map(lane).collect())
            .collect(),
        width: right - left,
    }
}

impl Place {
    const fn left(&self) -> i64 {
        self.center - self.width / 2
    }

    const fn right(&self) -> i64 {
        self.left() + self.width
    }
}

#[derive(Default)]
struct Arrangement {
    places: Vec<Place>,
    /// Places from the left.
    rows: BTreeMap<usize, Vec<usize>>,
}

impl Arrangement {
    fn add(&mut self, row: usize, width: i64) -> usize {
        let index = self.places.len();
        self.places.push(Place {
            row,
            width,
            center: 0,
            above: Vec::new(),
            below: Vec::new(),
        });
        self.rows.entry(row).or_default().push(index);
        index
    }

    /// Leads a line from one place to another, by a lane in each row between; the lanes.
    fn connect(&mut self, from: usize, to: usize) -> Vec<usize> {
        let rows = self.places[from].row + 1..self.places[to].row;
        let lanes: Vec<usize> = rows.map(|row| self.add(row, LANE)).collect();
        let mut above = from;
        for below in lanes.iter().copied().chain([to]) {
            self.places[above].below.push(below);
            self.places[below].above.push(above);
            above = below;
        }
        lanes
    }

    /// Sorts each row by the order of its neighbours, so that few lines cross.
    fn sort(&mut self) {
        let rows: Vec<usize> = self.rows.keys().copied().collect();
        for row in self.rows.values() {
            for (rank, index) in (0..).zip(row) {
                self.places[*index].center = rank;
            }
        }
        for _ in 0..ROUNDS {
            for row in rows.iter().skip(1) {
                self.sort_row(*row, |place| &place.above);
            }
            for row in rows.iter().rev().skip(1) {
                self.sort_row(*row, |place| &place.below);
            }
        }
    }

    /// Sorts a row by the mean ranks of its neighbours. While rows are sorted, a rank stands for the middle.
    fn sort_row(&mut self, row: usize, neighbours: fn(&Place) -> &Vec<usize>) {
        let Some(mut order) = self.rows.remove(&row) else {
            return;
        };
        order.sort_by_key(|index| {
            let place = &self.places[*index];
            // Ranks in thousandths, so that a mean between two of them is one, too.
            self.mean(neighbours(place), 1000)
                .unwrap_or(place.center * 1000)
        });
        for (rank, index) in (0..).zip(&order) {
            self.places[*index].center = rank;
        }
        self.rows.insert(row, order);
    }

    fn mean(&self, neighbours: &[usize], scale: i64) -> Option<i64> {
        let sum: i64 = neighbours
            .iter()
            .map(|index| self.places[*index].center * scale)
            .sum();
        let count = i64::try_from(neighbours.len()).ok()?;
        sum.checked_div(count)
    }

    /// Gives each place its middle.
    fn settle(&mut self) {
        let rows: Vec<usize> = self.rows.keys().copied().collect();
        for row in &rows {
            let wanted: Vec<i64> = vec![0; self.rows[row].len()];
            self.settle_row(*row, &wanted);
        }
        for _ in 0..ROUNDS {
            for row in rows.iter().skip(1) {
                self.approach(*row, |place| &place.above);
            }
            for row in rows.iter().rev().skip(1) {
                self.approach(*row, |place| &place.below);
            }
        }
        // At last each stands below what leads to it.
        for row in rows.iter().skip(1) {
            self.approach(*row, |place| &place.above);
        }
    }

    /// Moves a row towards its neighbours.
    fn approach(&mut self, row: usize, neighbours: fn(&Place) -> &Vec<usize>) {
        let wanted: Vec<i64> = self.rows[&row]
            .iter()
            .map(|index| {
                let place = &self.places[*index];
                self.mean(neighbours(place), 1).unwrap_or(place.center)
            })
            .collect();
        self.settle_row(row, &wanted);
    }

    /// Puts each place of a row as near to where it is wanted as the others let it. Those that would overlap become one
    /// block, whose members give way by the same length.
    fn settle_row(&mut self, row: usize, wanted: &[i64]) {
        let order = &self.rows[&row];
        // A block: the sum of where its members want its first one to be, how many they are.
        let mut blocks: Vec<(i64, i64)> = Vec::new();
        let mut offsets: Vec<i64> = Vec::new();
        let mut offset = 0;
        for (position, index) in order.iter().enumerate() {
            if let Some(before) = position.checked_sub(1) {
                let (left, right) = (&self.places[order[before]], &self.places[*index]);
                offset += (left.width + right.width) / 2 + GAP;
            }
            offsets.push(offset);
            blocks.push((wanted[position] - offset, 1));
            while let [.., (sum, count), (last_sum, last_count)] = blocks[..]
                && sum * last_count > last_sum * count
            {
                blocks.truncate(blocks.len() - 2);
                blocks.push((sum + last_sum, count + last_count));
            }
        }
        let shifts = blocks.iter().flat_map(|(sum, count)| {
            let count_of_members = usize::try_from(*count).unwrap_or(0);
            std::iter::repeat_n(sum.div_euclid(*count), count_of_members)
        });
        for ((index, offset), shift) in order.iter().zip(offsets).zip(shifts) {
            self.places[*index].center = shift + offset;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(trials::property(64))]

        /// Boxes of a row stand apart, and no line passes through one.
        #[test]
        fn nothing_overlaps(
            boxes in proptest::collection::vec((0..6_usize, 20..400_i64), 1..20),
            pairs in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..30),
        ) {
            let lines: Vec<(usize, usize)> = pairs
                .iter()
                .map(|(from, to)| (from.index(boxes.len()), to.index(boxes.len())))
                .filter(|(from, to)| boxes[*from].0 < boxes[*to].0)
                .collect();
            let layout = arranged(&boxes, &lines);
            let mut spans: Vec<(usize, i64, i64)> = boxes
                .iter()
                .zip(&layout.centers)
                .map(|((row, width), center)| (*row, center - width / 2, center - width / 2 + width))
                .collect();
            for (row, center) in layout.lanes.iter().flatten() {
                spans.push((*row, center - LANE / 2, center + LANE / 2));
            }
            spans.sort_unstable();
            for pair in spans.windows(2) {
                prop_assert!(pair[0].0 < pair[1].0 || pair[0].2 < pair[1].1, "{pair:?}");
            }
            prop_assert!(spans.iter().all(|(_, left, right)| *left >= 0 && *right <= layout.width));
            for ((from, to), lanes) in lines.iter().zip(&layout.lanes) {
                let rows: Vec<usize> = lanes.iter().map(|(row, _)| *row).collect();
                prop_assert_eq!(rows, (boxes[*from].0 + 1..boxes[*to].0).collect::<Vec<_>>());
            }
        }
    }
}
