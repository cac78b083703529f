//! One profile of several VMs that run the same program.

use std::collections::HashMap;

use super::{Profile, ProfiledFrame, ProfiledFunction};

/// Adds up profiles of one kind that were recorded at the same time; `None` without any.
///
/// A function is the same in all VMs if it begins at the same line; one of C, if it has the same
/// name.
pub fn merge(profiles: impl IntoIterator<Item = Profile>) -> Option<Profile> {
    let mut profiles = profiles.into_iter();
    let mut merged = profiles.next()?;
    let mut indexes: HashMap<_, u32> = merged.functions.iter().map(identity).zip(0..).collect();
    let mut places: HashMap<Vec<ProfiledFrame>, usize> =
        merged.stacks.iter().map(|stack| stack.frames.clone()).zip(0..).collect();
    for profile in profiles {
        let mut renumbered = Vec::with_capacity(profile.functions.len());
        for function in profile.functions {
            let next = merged.functions.len() as u32;
            let index = *indexes.entry(identity(&function)).or_insert(next);
            if index == next {
                merged.functions.push(function);
            }
            renumbered.push(index);
        }
        for mut stack in profile.stacks {
            for frame in &mut stack.frames {
                frame.function = renumbered[frame.function as usize];
            }
            if let Some(known) = places.get(&stack.frames) {
                merged.stacks[*known].samples += stack.samples;
                merged.stacks[*known].weight += stack.weight;
            } else {
                places.insert(stack.frames.clone(), merged.stacks.len());
                merged.stacks.push(stack);
            }
        }
        merged.outside += profile.outside;
        merged.left_out += profile.left_out;
        merged.duration = merged.duration.max(profile.duration);
    }
    Some(merged)
}

/// What a function has in common with itself in another VM: its name is that of its first call.
fn identity(function: &ProfiledFunction) -> (String, i32, String) {
    let name = if function.line == -1 { function.name.clone() } else { String::new() };
    (function.source.clone(), function.line, name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::merge;
    use crate::profile::{Profile, ProfileKind, ProfiledFrame, ProfiledFunction, ProfiledStack};

    fn function(source: &str, line: i32, name: &str) -> ProfiledFunction {
        ProfiledFunction { source: source.to_owned(), line, name: name.to_owned() }
    }

    fn profile(functions: Vec<ProfiledFunction>, stacks: &[(&[u32], u64)]) -> Profile {
        let frames = |functions: &[u32]| -> Vec<ProfiledFrame> {
            functions.iter().map(|&function| ProfiledFrame { function, line: 7 }).collect()
        };
        let stack = |(functions, weight): &(&[u32], u64)| ProfiledStack {
            frames: frames(functions),
            samples: 1,
            weight: *weight,
        };
        Profile {
            kind: ProfileKind::Allocations,
            functions,
            stacks: stacks.iter().map(stack).collect(),
            outside: 10,
            left_out: 1,
            duration: Duration::from_secs(1),
        }
    }

    #[test]
    fn stacks_of_the_same_functions_are_added_up() {
        let one = profile(
            vec![function("a.lua", 1, "f"), function("[C]", -1, "rep")],
            &[(&[1, 0], 5), (&[0], 1)],
        );
        let other = profile(
            vec![
                function("[C]", -1, "rep"),
                function("[C]", -1, "gsub"),
                function("a.lua", 1, "g"),
            ],
            &[(&[0, 2], 20), (&[1, 2], 3)],
        );
        let merged = merge([one, other]).expect("a profile");
        let names: Vec<&str> = merged.functions.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["f", "rep", "gsub"]);
        let stack = |at: usize| {
            let stack: &ProfiledStack = &merged.stacks[at];
            let functions: Vec<u32> = stack.frames.iter().map(|frame| frame.function).collect();
            (functions, stack.samples, stack.weight)
        };
        assert_eq!(merged.stacks.len(), 3);
        assert_eq!(stack(0), (vec![1, 0], 2, 25));
        assert_eq!(stack(1), (vec![0], 1, 1));
        assert_eq!(stack(2), (vec![2, 0], 1, 3));
        assert_eq!((merged.outside, merged.left_out), (20, 2));
        assert!(merge([]).is_none());
    }
}
