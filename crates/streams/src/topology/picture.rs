//! A picture of a topology, in SVG: each sub-topology is a box, records flow downwards.
//!
//! A node stands below its predecessors. Topics stand above the sources that read them and below the sinks that write
//! them; a node shows the state stores that it uses in brackets.

use super::TopologyDescription;
use super::{DescribedKind, NodeDescription, SinkTopic, SourceTopics, SubtopologyDescription};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Lengths in pixels.
const MARGIN: usize = 20;
const CHARACTER: usize = 7;
const PADDING: usize = 10;
const LINE: usize = 16;
const GAP: usize = 24;
const ROW_GAP: usize = 44;
const TITLE: usize = 26;

/// A rectangle with lines of text.
struct Shape {
    class: &'static str,
    lines: Vec<String>,
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

impl Shape {
    fn new(class: &'static str, lines: Vec<String>) -> Self {
        let longest = lines.iter().map(|line| line.chars().count()).max();
        Self {
            class,
            width: longest.unwrap_or(0) * CHARACTER + 2 * PADDING,
            height: lines.len() * LINE + PADDING,
            lines,
            x: 0,
            y: 0,
        }
    }

    const fn center(&self) -> usize {
        self.x + self.width / 2
    }

    const fn bottom(&self) -> usize {
        self.y + self.height
    }
}

/// The shapes of a sub-topology, and which of them are connected.
#[derive(Default)]
struct Drawing {
    /// Indices of shapes, from the left.
    rows: BTreeMap<usize, Vec<usize>>,
    shapes: Vec<Shape>,
    edges: Vec<(usize, usize)>,
}

impl TopologyDescription {
    /// The picture, as a whole SVG document.
    pub fn to_svg(&self) -> String {
        let mut body = String::new();
        let mut y = MARGIN;
        let mut width = 0;
        for subtopology in &self.subtopologies {
            let mut drawing = Drawing::of(subtopology);
            let (drawn_width, drawn_height) = drawing.arrange(y + TITLE);
            let title = match subtopology.is_global {
                true => format!("Sub-topology {} (global store)", subtopology.id),
                false => format!("Sub-topology {}", subtopology.id),
            };
            let box_width = drawn_width.max(title.chars().count() * CHARACTER + 2 * GAP);
            let box_height = drawn_height + TITLE;
            let _ = writeln!(
                body,
                r#"<rect class="box" x="{MARGIN}" y="{y}" width="{box_width}" height="{box_height}" rx="6"/>"#
            );
            let (title_x, title_y) = (MARGIN + PADDING, y + LINE + 2);
            let _ = writeln!(
                body,
                r#"<text class="title" x="{title_x}" y="{title_y}">{title}</text>"#
            );
            drawing.write(&mut body);
            y += box_height + MARGIN;
            width = width.max(box_width);
        }
        let width = width + 2 * MARGIN;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" \
             viewBox=\"0 0 {width} {y}\">\n{STYLE}<rect width=\"{width}\" height=\"{y}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }
}

const STYLE: &str = r##"<style>
text { font: 12px monospace; fill: #1f2933; text-anchor: middle; }
text.title { font-weight: bold; text-anchor: start; }
.box { fill: #f7f9fb; stroke: #9aa5b1; }
.source { fill: #d9f2e3; stroke: #2f855a; }
.processor { fill: #e3ecfa; stroke: #2b6cb0; }
.sink { fill: #fde8d7; stroke: #c05621; }
.topic { fill: #ffffff; stroke: #52606d; stroke-dasharray: 4 3; }
path { fill: none; stroke: #52606d; }
path.head { fill: #52606d; stroke: none; }
</style>
"##;

impl Drawing {
    fn of(subtopology: &SubtopologyDescription) -> Self {
        let mut drawing = Self::default();
        let rows = rows(&subtopology.nodes);
        let mut by_name: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        let mut topics: BTreeMap<String, usize> = BTreeMap::new();
        for node in &subtopology.nodes {
            let row = rows[&node.name];
            let (class, lines) = node_lines(node);
            let shape = drawing.add(row, Shape::new(class, lines));
            by_name.insert(&node.name, shape);
            match &node.kind {
                DescribedKind::Source(read) => {
                    let shown = match read {
                        SourceTopics::Named(topics) => {
                            topics.iter().map(ToString::to_string).collect()
                        }
                        SourceTopics::Pattern(pattern) => vec![format!("/{pattern}/")],
                    };
                    let topic = drawing.add(0, Shape::new("topic", shown));
                    drawing.edges.push((topic, shape));
                }
                DescribedKind::Sink(written) => {
                    let shown = match written {
                        SinkTopic::Named(topic) => topic.to_string(),
                        SinkTopic::Extracted(extractor) => format!("by {extractor}"),
                    };
                    let topic = match topics.get(&shown) {
                        Some(topic) => *topic,
                        None => drawing.add(row + 1, Shape::new("topic", vec![shown.clone()])),
                    };
                    topics.insert(shown, topic);
                    drawing.edges.push((shape, topic));
                }
                DescribedKind::Processor(_) => {}
            }
        }
        for node in &subtopology.nodes {
            for successor in &node.successors {
                let edge = (by_name.get(&node.name), by_name.get(successor));
                if let (Some(from), Some(to)) = edge {
                    drawing.edges.push((*from, *to));
                }
            }
        }
        drawing
    }

    fn add(&mut self, row: usize, shape: Shape) -> usize {
        self.shapes.push(shape);
        let index = self.shapes.len() - 1;
        self.rows.entry(row).or_default().push(index);
        index
    }

    /// Gives each shape its place below `top`; how wide and high all of them are.
    fn arrange(&mut self, top: usize) -> (usize, usize) {
        let row_width = |shapes: &[Shape], row: &[usize]| {
            row.iter()
                .map(|index| shapes[*index].width + GAP)
                .sum::<usize>()
                + GAP
        };
        let widest = self
            .rows
            .values()
            .map(|row| row_width(&self.shapes, row))
            .max();
        let width = widest.unwrap_or(0);
        let mut y = top;
        let mut rows = std::mem::take(&mut self.rows);
        for row in rows.values_mut() {
            // A shape stands where what is above it stands, as far as there is room.
            row.sort_by_key(|index| self.above(*index).unwrap_or(usize::MAX));
            let mut x = MARGIN + GAP;
            let mut right = MARGIN + width.saturating_sub(row_width(&self.shapes, row)) + GAP;
            let mut height = 0;
            for index in row.iter().copied() {
                let own_width = self.shapes[index].width;
                let wanted = self
                    .above(index)
                    .map_or(x, |center| center.saturating_sub(own_width / 2));
                let shape = &mut self.shapes[index];
                shape.x = wanted.clamp(x, right.max(x));
                shape.y = y;
                x = shape.x + own_width + GAP;
                right += own_width + GAP;
                height = height.max(shape.height);
            }
            y += height + ROW_GAP;
        }
        self.rows = rows;
        (width, (y - top).saturating_sub(ROW_GAP) + GAP)
    }

    /// The middle of what stands above a shape.
    fn above(&self, index: usize) -> Option<usize> {
        let centers: Vec<usize> = self
            .edges
            .iter()
            .filter(|(_, to)| *to == index)
            .map(|(from, _)| self.shapes[*from].center())
            .collect();
        (!centers.is_empty()).then(|| centers.iter().sum::<usize>() / centers.len())
    }

    fn write(&self, body: &mut String) {
        for (from, to) in &self.edges {
            let (from, to) = (&self.shapes[*from], &self.shapes[*to]);
            let (x, y) = (from.center(), from.bottom());
            let (to_x, to_y) = (to.center(), to.y.saturating_sub(6));
            let bend = (to_y.saturating_sub(y)) / 2;
            let _ = writeln!(
                body,
                r#"<path d="M{x} {y} C{x} {} {to_x} {} {to_x} {to_y}"/>"#,
                y + bend,
                to_y.saturating_sub(bend)
            );
            let _ = writeln!(
                body,
                r#"<path class="head" d="M{} {to_y} L{} {to_y} L{to_x} {} Z"/>"#,
                to_x.saturating_sub(4),
                to_x + 4,
                to.y
            );
        }
        for shape in &self.shapes {
            shape.write(body);
        }
    }
}

impl Shape {
    fn write(&self, body: &mut String) {
        let Self {
            class,
            x,
            y,
            width,
            height,
            ..
        } = self;
        let _ = writeln!(
            body,
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>"#
        );
        for (number, line) in self.lines.iter().enumerate() {
            let y = y + PADDING / 2 + (number + 1) * LINE - 4;
            let _ = writeln!(
                body,
                r#"<text x="{}" y="{y}">{}</text>"#,
                self.center(),
                escaped(line)
            );
        }
    }
}

/// Rows of nodes, from the top; topics that are read are in row 0.
fn rows(nodes: &[NodeDescription]) -> BTreeMap<Arc<str>, usize> {
    let mut rows: BTreeMap<Arc<str>, usize> = nodes
        .iter()
        .map(|node| (Arc::clone(&node.name), 1))
        .collect();
    // The longest way through the nodes has as many steps as there are nodes, at most.
    for _ in nodes {
        for node in nodes {
            let below = rows[&node.name] + 1;
            for successor in &node.successors {
                if let Some(row) = rows.get_mut(successor) {
                    *row = below.max(*row);
                }
            }
        }
    }
    rows
}

fn node_lines(node: &NodeDescription) -> (&'static str, Vec<String>) {
    let mut lines = vec![node.name.to_string()];
    let class = match &node.kind {
        DescribedKind::Source(_) => "source",
        DescribedKind::Sink(_) => "sink",
        DescribedKind::Processor(stores) => {
            lines.extend(stores.iter().map(|store| format!("[{store}]")));
            "processor"
        }
    };
    (class, lines)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use crate::dsl::StreamsBuilder;
    use expect_test::expect;

    #[test]
    fn a_picture_has_every_node_and_topic() -> Result<(), crate::topology::TopologyError> {
        let builder = StreamsBuilder::new();
        builder
            .stream_pattern::<String, String>("a<b.*", crate::topology::Consumed::default())
            .filter(|_, _| true)
            .to("out");
        expect![[r##"
            <svg xmlns="http://www.w3.org/2000/svg" width="283" height="396" viewBox="0 0 283 396">
            <style>
            text { font: 12px monospace; fill: #1f2933; text-anchor: middle; }
            text.title { font-weight: bold; text-anchor: start; }
            .box { fill: #f7f9fb; stroke: #9aa5b1; }
            .source { fill: #d9f2e3; stroke: #2f855a; }
            .processor { fill: #e3ecfa; stroke: #2b6cb0; }
            .sink { fill: #fde8d7; stroke: #c05621; }
            .topic { fill: #ffffff; stroke: #52606d; stroke-dasharray: 4 3; }
            path { fill: none; stroke: #52606d; }
            path.head { fill: #52606d; stroke: none; }
            </style>
            <rect width="283" height="396" fill="#ffffff"/>
            <rect class="box" x="20" y="20" width="243" height="356" rx="6"/>
            <text class="title" x="30" y="38">Sub-topology 0</text>
            <path d="M78 72 C78 91 141 91 141 110"/>
            <path class="head" d="M137 110 L145 110 L141 116 Z"/>
            <path d="M141 282 C141 301 141 301 141 320"/>
            <path class="head" d="M137 320 L145 320 L141 326 Z"/>
            <path d="M141 142 C141 161 141 161 141 180"/>
            <path class="head" d="M137 180 L145 180 L141 186 Z"/>
            <path d="M141 212 C141 231 141 231 141 250"/>
            <path class="head" d="M137 250 L145 250 L141 256 Z"/>
            <rect class="source" x="44" y="116" width="195" height="26" rx="4"/>
            <text x="141" y="133">KSTREAM-SOURCE-0000000000</text>
            <rect class="topic" x="44" y="46" width="69" height="26" rx="4"/>
            <text x="78" y="63">/a&lt;b.*/</text>
            <rect class="processor" x="44" y="186" width="195" height="26" rx="4"/>
            <text x="141" y="203">KSTREAM-FILTER-0000000001</text>
            <rect class="sink" x="51" y="256" width="181" height="26" rx="4"/>
            <text x="141" y="273">KSTREAM-SINK-0000000002</text>
            <rect class="topic" x="121" y="326" width="41" height="26" rx="4"/>
            <text x="141" y="343">out</text>
            </svg>
        "##]]
        .assert_eq(&builder.build()?.describe().to_svg());
        Ok(())
    }
}
