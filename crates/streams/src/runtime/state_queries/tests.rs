//! What tasks answer by what they do.

use super::*;
use crate::dsl::{Materialized, StreamsBuilder};
use crate::headers::Headers;
use crate::processor::Handlers;
use crate::state::{CacheBudget, ChangelogRecord, TaskStorage};
use crate::task::Task;
use crate::topology::BuiltTask;
use expect_test::{Expect, expect};

type Error = Box<dyn std::error::Error>;

const TASK: TaskId = TaskId {
    subtopology: 0,
    partition: 0,
};

fn built() -> Result<BuiltTask, Error> {
    built_in(&TaskStorage::in_memory(CacheBudget::new(0)))
}

fn built_in(storage: &TaskStorage) -> Result<BuiltTask, Error> {
    let builder = StreamsBuilder::new();
    let stream = builder.stream::<String, String>("in");
    stream
        .group_by_key()
        .count_with(Materialized::named("counts"));
    let topology = builder.build()?;
    let parts = topology.subtopologies();
    let none = TaskStores::default();
    Ok(topology.instantiate(&Arc::from("app"), &parts[0], TASK, storage, &none)?)
}

fn task() -> Result<Task, Error> {
    Ok(task_of(built()?))
}

fn task_of(built: BuiltTask) -> Task {
    let handlers = Arc::new(Handlers::default());
    Task::new(TASK, Arc::from("app"), handlers, built, Vec::new())
}

/// What a thread answers to a request for any position, to one for a position, and to both with `require_active`, when
/// it has tasks that do `roles`.
fn check(roles: &[Role], expected: Expect) -> Result<(), Error> {
    let has = |role: Role| roles.contains(&role);
    let (mut tasks, mut standbys) = (BTreeMap::new(), BTreeMap::new());
    if has(Role::Processes) {
        tasks.insert(TASK, task()?);
    }
    if has(Role::StandsBy) {
        standbys.insert(TASK, built()?);
    }
    let restored = task()?;
    let restoring = has(Role::Restores).then_some((TASK, &restored));
    let asked = Asked {
        tasks: &tasks,
        restoring: restoring.into_iter().collect(),
        standbys: &standbys,
    };
    let any = StateQueryRequest::in_store("counts")
        .with_query(KeyQuery::<String, i64>::with_key("word".to_owned()));
    let mut wanted = Position::default();
    let offsets = BTreeMap::from([(0, 5)]);
    wanted.offsets.insert("in".to_owned(), offsets);
    let late = any.clone().with_position_bound(PositionBound::at(wanted));
    let requests = [
        ("any", any.clone()),
        ("bound", late.clone()),
        ("active", any.require_active()),
        ("active, bound", late.require_active()),
    ];
    let mut out = String::new();
    for (name, request) in requests {
        for (_, role, result) in request.answers_of(&asked) {
            let outcome = match result.outcome {
                Ok(answer) => format!("{answer:?}"),
                Err((reason, words)) => format!("{reason:?}: {words}"),
            };
            out.push_str(&format!("{name}: {role:?} {outcome}\n"));
        }
    }
    expected.assert_eq(&out);
    Ok(())
}

#[test]
fn a_task_that_processes_answers_all_who_ask_for_it() -> Result<(), Error> {
    check(
        &[Role::Processes],
        expect![[r#"
        any: Processes None
        bound: Processes NotUpToBound: the task has processed Position { offsets: {} } until now
        active: Processes None
        active, bound: Processes None
    "#]],
    )
}

#[test]
fn a_task_that_is_restored_answers_who_takes_that() -> Result<(), Error> {
    check(
        &[Role::Restores],
        expect![[r#"
        any: Restores None
        bound: Restores NotUpToBound: the task has processed Position { offsets: {} } until now
        active: Restores NotActive: the task is being restored; ask later
        active, bound: Restores NotActive: the task is being restored; ask later
    "#]],
    )
}

#[test]
fn a_task_that_stands_by_answers_who_takes_that() -> Result<(), Error> {
    check(
        &[Role::StandsBy],
        expect![[r#"
        any: StandsBy None
        bound: StandsBy NotUpToBound: the task has processed Position { offsets: {} } until now
        active: StandsBy NotActive: the task stands by here; ask the instance that runs it
        active, bound: StandsBy NotActive: the task stands by here; ask the instance that runs it
    "#]],
    )
}

/// Who asks would wait until all of them are merged, and so would the thread.
#[test]
fn a_store_with_rows_in_files_answers_nobody() -> Result<(), Error> {
    let directory = trials::directory();
    let in_files = |name: &str| -> Result<BuiltTask, Error> {
        let path = directory.path().join(name);
        let built = built_in(&TaskStorage::on_disk(path, CacheBudget::new(0)))?;
        let records = (0..2_000_i64).map(|offset| ChangelogRecord {
            key: format!("{offset:8000}").into(),
            value: Some(vec![0; 8].into()),
            timestamp_ms: offset,
            headers: Headers::EMPTY,
            offset,
        });
        let records: Vec<ChangelogRecord> = records.collect();
        built.stores["counts"].borrow_mut().restore(&records)?;
        Ok(built)
    };
    let restored = task_of(in_files("restored")?);
    let asked = Asked {
        tasks: &BTreeMap::new(),
        restoring: BTreeMap::from([(TASK, &restored)]),
        standbys: &BTreeMap::from([(TASK, in_files("standby")?)]),
    };
    let query = KeyQuery::<String, i64>::with_key("word".to_owned());
    let request = StateQueryRequest::in_store("counts").with_query(query);
    let answers = request.answers_of(&asked);
    assert_eq!(answers.len(), 2);
    for (_, role, result) in answers {
        let Err((reason, words)) = result.outcome else {
            panic!("{role:?} has answered");
        };
        assert_eq!(reason, FailureReason::NotActive);
        assert!(words.ends_with("; ask later"), "{words}");
    }
    Ok(())
}

#[test]
fn a_position_is_late_enough_where_each_offset_is() {
    let position = |offsets: &[(&str, i32, i64)]| {
        let mut position = Position::default();
        for (topic, partition, offset) in offsets {
            let of_topic = position.offsets.entry((*topic).to_owned()).or_default();
            of_topic.insert(*partition, *offset);
        }
        position
    };
    let has = position(&[("in", 0, 5), ("in", 1, 7), ("other", 0, 1)]);
    let check = |bound: &[(&str, i32, i64)], expected| {
        assert_eq!(is_up_to(&has, &position(bound)), expected, "{bound:?}");
    };
    check(&[], true);
    check(&[("in", 0, 5), ("in", 1, 7)], true);
    check(&[("in", 0, 4), ("other", 0, 2)], false);
    check(&[("in", 0, 6)], false);
    check(&[("in", 2, 0)], false);
    check(&[("none", 0, 0)], false);
}

/// As while a task goes from one thread to another.
#[test]
fn a_partition_has_the_result_of_the_task_that_does_most() {
    let of = |role: Role| {
        let result = QueryResult {
            outcome: Ok(role),
            position: Position::default(),
            execution_info: Vec::new(),
        };
        (3, role, result)
    };
    let roles = [Role::Restores, Role::Processes, Role::StandsBy];
    let results = by_partition(roles.map(of).into());
    let answers = results.values().map(QueryResult::answer);
    assert!(answers.eq([Some(&Role::Processes)]));
}

#[test]
fn one_partition_has_the_result_or_it_is_an_error() {
    let of = |outcome: Option<i64>| QueryResult {
        outcome: Ok(outcome),
        position: Position::default(),
        execution_info: Vec::new(),
    };
    let results = |partitions: &[(i32, Option<i64>)], global: Option<i64>| StateQueryResult {
        partition_results: partitions
            .iter()
            .map(|(partition, outcome)| (*partition, of(*outcome)))
            .collect(),
        global_result: global.map(|global| of(Some(global))),
    };
    let none = results(&[(0, None), (1, None)], Some(7));
    assert_eq!(none.only_partition_result(), Ok(None));
    let one = results(&[(0, None), (1, Some(5))], None);
    assert_eq!(one.only_partition_result(), Ok(Some(&5)));
    let two = results(&[(0, Some(5)), (1, Some(5))], None);
    let several = two.only_partition_result();
    assert_eq!(several, Err(SeveralResults(vec![0, 1])));
    assert_eq!(
        SeveralResults(vec![0, 1]).to_string(),
        "partitions [0, 1] have a result, and only one was to have one"
    );
}
