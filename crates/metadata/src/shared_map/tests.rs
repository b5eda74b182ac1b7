use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Step {
    Insert(u16, u8),
    Remove(u16),
    Publish,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0u16..900, any::<u8>()).prop_map(|(key, value)| Step::Insert(key, value)),
        3 => (0u16..900).prop_map(Step::Remove),
        1 => Just(Step::Publish),
    ];
    prop::collection::vec(step, 0..1500)
}

type Maps = (SharedMap<u16, u8>, BTreeMap<u16, u8>);

fn play(steps: &[Step]) -> Vec<Maps> {
    let (mut map, mut model) = Maps::default();
    let mut published = Vec::new();
    for step in steps {
        match *step {
            Step::Insert(key, value) => {
                assert_eq!(map.insert(key, value), model.insert(key, value));
            }
            Step::Remove(key) => assert_eq!(map.remove(&key), model.remove(&key)),
            Step::Publish => published.push((map.clone(), model.clone())),
        }
    }
    published.push((map, model));
    published
}

proptest! {
    #![proptest_config(trials::property(24))]

    #[test]
    fn behaves_as_a_sorted_map_and_clones_stay_as_they_were(steps in steps(), probe in 0u16..900) {
        for (map, model) in play(&steps) {
            prop_assert_eq!(map.len(), model.len());
            prop_assert!(map.iter().eq(model.iter()));
            prop_assert_eq!(map.get(&probe), model.get(&probe));
            prop_assert!(map.iter_from(&probe).eq(model.range(probe..)));
        }
    }

    #[test]
    fn a_diff_is_what_changed(steps in steps()) {
        let published = play(&steps);
        for pair in published.windows(2) {
            let [(before, model_before), (after, model_after)] = pair else { unreachable!() };
            let mut expected = Vec::new();
            for key in 0..900u16 {
                let (old, new) = (model_before.get(&key), model_after.get(&key));
                if old != new {
                    expected.push((key, old, new));
                }
            }
            let found: Vec<_> = before.diff(after).map(|d| (*d.key, d.before, d.after)).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(before == after, expected.is_empty());
        }
    }
}

#[test]
fn a_change_copies_one_chunk() {
    let before: SharedMap<u32, u32> = (0..10_000).map(|key| (key, key)).collect();
    let mut after = before.clone();
    after.insert(5_000, 0);
    let shared = before
        .chunks
        .iter()
        .zip(after.chunks.iter())
        .filter(|(one, other)| Arc::ptr_eq(one, other))
        .count();
    assert_eq!(shared, before.chunks.len() - 1);
    assert_eq!(before.get(&5_000), Some(&5_000));
}
