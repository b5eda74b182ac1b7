//! A picture of a topology, in SVG: each sub-topology is a box, records flow downwards.
//!
//! A node stands below its predecessors. Topics stand above the sources that read them and below the sinks that write
//! them; a node shows the state stores that it uses in brackets. `layout` says where each stands.

mod layout;

use super::TopologyDescription;
use super::{DescribedKind, NodeDescription, SinkTopic, SourceTopics, SubtopologyDescription};
use layout::arranged;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Lengths in pixels.
const MARGIN: i64 = 20;
const PADDING: i64 = 10;
const LINE: i64 = 16;
const GAP: i64 = 24;
const ROW_GAP: i64 = 44;
const TITLE: i64 = 26;
/// The head of an arrow.
const HEAD: i64 = 6;

/// How wide a text is, a little more than monospaced letters of 12 pixels are.
fn text_width(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX / 64) * 15 / 2
}

/// A rectangle with lines of text.
struct Shape {
    class: &'static str,
    lines: Vec<String>,
    row: usize,
    center: i64,
    y: i64,
    width: i64,
    height: i64,
}

impl Shape {
    fn new(class: &'static str, row: usize, lines: Vec<String>) -> Self {
        let longest = lines.iter().map(|line| text_width(line)).max();
        let height = i64::try_from(lines.len()).unwrap_or(1) * LINE + PADDING;
        Self {
            class,
            row,
            width: longest.unwrap_or(0) + 2 * PADDING,
            height,
            lines,
            center: 0,
            y: 0,
        }
    }

    const fn bottom(&self) -> i64 {
        self.y + self.height
    }
}

/// The shapes of a sub-topology, and which of them are connected.
#[derive(Default)]
struct Drawing {
    shapes: Vec<Shape>,
    edges: Vec<(usize, usize)>,
    /// The lanes of each edge through rows that it passes: row and middle.
    lanes: Vec<Vec<(usize, i64)>>,
    /// Top and bottom of each row.
    rows: Vec<(i64, i64)>,
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
            let box_width = drawn_width.max(text_width(&title) + 2 * GAP);
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
        let mut written: BTreeMap<String, usize> = BTreeMap::new();
        for node in &subtopology.nodes {
            let row = rows[&node.name];
            let (class, lines) = node_lines(node);
            let shape = drawing.add(Shape::new(class, row, lines));
            by_name.insert(&node.name, shape);
            match &node.kind {
                DescribedKind::Source(read) => {
                    let topics = drawing.add(Shape::new("topic", 0, topics_read(read)));
                    drawing.edges.push((topics, shape));
                }
                DescribedKind::Sink(topic) => {
                    let shown = topic_written(topic);
                    let known = written.get(&shown).copied();
                    let topic = known.unwrap_or_else(|| {
                        drawing.add(Shape::new("topic", row + 1, vec![shown.clone()]))
                    });
                    // It stands below all sinks that write it.
                    drawing.shapes[topic].row = drawing.shapes[topic].row.max(row + 1);
                    written.insert(shown, topic);
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

    fn add(&mut self, shape: Shape) -> usize {
        self.shapes.push(shape);
        self.shapes.len() - 1
    }

    /// Gives each shape its place below `top`; how wide and high all of them are.
    fn arrange(&mut self, top: i64) -> (i64, i64) {
        let boxes: Vec<(usize, i64)> = self
            .shapes
            .iter()
            .map(|shape| (shape.row, shape.width))
            .collect();
        let layout = arranged(&boxes, &self.edges);
        let left = MARGIN + GAP;
        for (shape, center) in self.shapes.iter_mut().zip(layout.centers) {
            shape.center = left + center;
        }
        self.lanes = layout.lanes;
        for (_, center) in self.lanes.iter_mut().flatten() {
            *center += left;
        }
        let last_row = boxes.iter().map(|(row, _)| *row).max().unwrap_or(0);
        let mut y = top;
        for row in 0..=last_row {
            let in_row = self.shapes.iter_mut().filter(|shape| shape.row == row);
            let mut height = 0;
            for shape in in_row {
                shape.y = y;
                height = height.max(shape.height);
            }
            self.rows.push((y, y + height));
            y += height + ROW_GAP;
        }
        (layout.width + 2 * GAP, y - top - ROW_GAP + GAP)
    }

    fn write(&self, body: &mut String) {
        for ((from, to), lanes) in self.edges.iter().zip(&self.lanes) {
            self.write_arrow(body, *from, *to, lanes);
        }
        for shape in &self.shapes {
            shape.write(body);
        }
    }

    /// Draws an arrow: straight through each row that it passes, and bent between the rows.
    fn write_arrow(&self, body: &mut String, from: usize, to: usize, lanes: &[(usize, i64)]) {
        let (from, to) = (&self.shapes[from], &self.shapes[to]);
        let lanes = lanes.iter().map(|(row, x)| {
            let (top, bottom) = self.rows[*row];
            (*x, top, bottom)
        });
        let end = (to.center, to.y - HEAD, to.y - HEAD);
        let mut x = from.center;
        let (_, mut y) = self.rows[from.row];
        let _ = write!(body, r#"<path d="M{x} {} V{y}"#, from.bottom());
        for (next_x, top, bottom) in lanes.chain([end]) {
            let middle = i64::midpoint(y, top);
            let _ = write!(body, " C{x} {middle} {next_x} {middle} {next_x} {top}");
            if bottom > top {
                let _ = write!(body, " V{bottom}");
            }
            (x, y) = (next_x, bottom);
        }
        let _ = writeln!(
            body,
            "\"/>\n<path class=\"head\" d=\"M{} {y} L{} {y} L{x} {} Z\"/>",
            x - 4,
            x + 4,
            to.y
        );
    }
}

impl Shape {
    fn write(&self, body: &mut String) {
        let Self {
            class,
            center,
            y,
            width,
            height,
            ..
        } = self;
        let x = center - width / 2;
        let _ = writeln!(
            body,
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>"#
        );
        for (line_number, line) in (1..).zip(&self.lines) {
            let y = y + PADDING / 2 + line_number * LINE - 4;
            let line = escaped(line);
            let _ = writeln!(body, r#"<text x="{center}" y="{y}">{line}</text>"#);
        }
    }
}

fn topics_read(topics: &SourceTopics) -> Vec<String> {
    match topics {
        SourceTopics::Named(topics) => topics.iter().map(ToString::to_string).collect(),
        SourceTopics::Pattern(pattern) => vec![format!("/{pattern}/")],
    }
}

fn topic_written(topic: &SinkTopic) -> String {
    match topic {
        SinkTopic::Named(topic) => topic.to_string(),
        SinkTopic::Extracted(extractor) => format!("by {extractor}"),
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
            <svg xmlns="http://www.w3.org/2000/svg" width="295" height="396" viewBox="0 0 295 396">
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
            <rect width="295" height="396" fill="#ffffff"/>
            <rect class="box" x="20" y="20" width="255" height="356" rx="6"/>
            <text class="title" x="30" y="38">Sub-topology 0</text>
            <path d="M147 72 V72 C147 91 147 91 147 110"/>
            <path class="head" d="M143 110 L151 110 L147 116 Z"/>
            <path d="M147 282 V282 C147 301 147 301 147 320"/>
            <path class="head" d="M143 320 L151 320 L147 326 Z"/>
            <path d="M147 142 V142 C147 161 147 161 147 180"/>
            <path class="head" d="M143 180 L151 180 L147 186 Z"/>
            <path d="M147 212 V212 C147 231 147 231 147 250"/>
            <path class="head" d="M143 250 L151 250 L147 256 Z"/>
            <rect class="source" x="44" y="116" width="207" height="26" rx="4"/>
            <text x="147" y="133">KSTREAM-SOURCE-0000000000</text>
            <rect class="topic" x="111" y="46" width="72" height="26" rx="4"/>
            <text x="147" y="63">/a&lt;b.*/</text>
            <rect class="processor" x="44" y="186" width="207" height="26" rx="4"/>
            <text x="147" y="203">KSTREAM-FILTER-0000000001</text>
            <rect class="sink" x="51" y="256" width="192" height="26" rx="4"/>
            <text x="147" y="273">KSTREAM-SINK-0000000002</text>
            <rect class="topic" x="126" y="326" width="42" height="26" rx="4"/>
            <text x="147" y="343">out</text>
            </svg>
        "##]]
        .assert_eq(&builder.build()?.describe().to_svg());
        Ok(())
    }
}
