//! A flame graph: an SVG without scripts, whose boxes show their names and shares as tooltips.

use std::fmt::Write as _;

use lua_vm::profile::{Profile, ProfileKind};

use super::named_stacks;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const MARGIN: f64 = 10.0;
/// Narrower boxes are not drawn.
const LEAST_WIDTH: f64 = 0.3;
/// The width of a character in a box.
const CHARACTER: f64 = 6.6;

/// A box: a function, how deep it is in its stacks, and the part of the whole that it has.
struct Block<'a> {
    name: &'a str,
    depth: usize,
    begin: u64,
    weight: u64,
}

/// Draws a profile; the outermost functions are below.
pub(super) fn draw(profile: &Profile) -> String {
    let stacks = named_stacks(profile);
    let total = stacks.iter().map(|(_, weight)| weight).sum::<u64>();
    let blocks = blocks(&stacks);
    let rows = blocks.iter().map(|block| block.depth + 1).max().unwrap_or(0) + 1;
    let height = rows as f64 * ROW + 2.0 * MARGIN;
    let (what, unit) = match profile.kind {
        ProfileKind::Cpu { .. } => ("CPU time", "ms"),
        ProfileKind::Allocations => ("allocations", "KiB"),
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {height:.0}\" \
         font-family=\"monospace\" font-size=\"11\">\n\
         <style>rect{{stroke:#fff;stroke-width:.5}}text{{pointer-events:none}}</style>\n\
         <text x=\"{MARGIN}\" y=\"{:.0}\">{what}: {} {unit} in {:.1} s</text>\n",
        WIDTH + 2.0 * MARGIN,
        MARGIN + 11.0,
        shown(profile, total),
        profile.duration.as_secs_f64(),
    );
    let scale = WIDTH / total.max(1) as f64;
    for block in &blocks {
        let width = block.weight as f64 * scale;
        if width < LEAST_WIDTH {
            continue;
        }
        let x = MARGIN + block.begin as f64 * scale;
        let y = height - MARGIN - (block.depth + 1) as f64 * ROW;
        let share = block.weight as f64 * 100.0 / total.max(1) as f64;
        let hue = block.name.bytes().fold(7u32, |hue, byte| hue * 31 % 997 + u32::from(byte)) % 50;
        // Writing to a string does not fail.
        let _ = writeln!(
            svg,
            "<g><title>{}: {} {unit}, {share:.1} %</title><rect x=\"{x:.1}\" y=\"{y:.1}\" \
             width=\"{width:.1}\" height=\"{ROW}\" fill=\"hsl({hue},80%,70%)\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            escaped(block.name),
            shown(profile, block.weight),
            x + 3.0,
            y + 13.0,
            escaped(&fitted(block.name, width)),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// A weight in the unit that is shown.
fn shown(profile: &Profile, weight: u64) -> u64 {
    match profile.kind {
        ProfileKind::Cpu { .. } => weight / 1_000_000,
        ProfileKind::Allocations => weight / 1024,
    }
}

/// The part of a name that a box has room for.
fn fitted(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / CHARACTER).max(0.0) as usize;
    if room < 3 { String::new() } else { name.chars().take(room).collect() }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // XML has no other characters below a space.
            character if character < ' ' => out.push(' '),
            character => out.push(character),
        }
    }
    out
}

/// The boxes of sorted stacks: neighbours that begin alike share them.
fn blocks(stacks: &[(Vec<String>, u64)]) -> Vec<Block<'_>> {
    let mut done: Vec<Block<'_>> = Vec::new();
    // The indexes of the boxes of the stack before.
    let mut open: Vec<usize> = Vec::new();
    let mut begin = 0;
    for (names, weight) in stacks {
        let shared = open
            .iter()
            .zip(names)
            .take_while(|(index, name)| done[**index].name == name.as_str())
            .count();
        open.truncate(shared);
        for index in &open {
            done[*index].weight += weight;
        }
        for (depth, name) in names.iter().enumerate().skip(shared) {
            open.push(done.len());
            done.push(Block { name, depth, begin, weight: *weight });
        }
        begin += weight;
    }
    done
}
