use super::*;

#[test]
fn a_copy_that_cannot_be_removed_whole_is_no_copy_any_more() {
    let directory = trials::directory();
    let copy = directory
        .path()
        .join("topic-0.0123456789abcdef0123456789abcdef-future");
    std::fs::create_dir(&copy).unwrap();
    std::fs::write(copy.join("00000000000000000000.log"), b"batches").unwrap();
    // The name is taken: the removal ends with the new name, as a crash may end it.
    let taken = directory
        .path()
        .join("topic-0.0123456789abcdef0123456789abcdef-delete");
    std::fs::write(&taken, b"").unwrap();
    assert!(remove_as_deleted(&copy).is_err());
    assert!(
        copy.join("00000000000000000000.log").exists(),
        "all of it, or nothing"
    );
    std::fs::remove_file(&taken).unwrap();
    remove_as_deleted(&copy).unwrap();
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 0);
}
