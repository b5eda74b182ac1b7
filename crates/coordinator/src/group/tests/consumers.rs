//! Consumer groups: members that join, live, get partitions and leave.

use super::script::check;
use expect_test::expect;

#[test]
fn members_share_the_partitions() {
    check(&expect![[r#"
        config interval=0
        topics t=4
        beat g a epoch=0
          a epoch=2 t:0,1,2,3
          record: g member a [t]
          record: g epoch=2
          record: g target a t:0,1,2,3
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1,2,3
        beat g b epoch=0
          b epoch=3 -
          record: g member b [t]
          record: g epoch=3
          record: g target a t:0,1
          record: g target b t:2,3
          record: g assignment epoch=3
          record: g current b epoch=3 unreleased -
        beat g a
          a epoch=2 t:0,1
          record: g current a epoch=2 unrevoked t:0,1 without t:2,3
        beat g b
          b epoch=3
          record: g current b epoch=3 unreleased -
        beat g a ack
          a epoch=3
          record: g current a epoch=3 stable t:0,1
        beat g b
          b epoch=3 t:2,3
          record: g current b epoch=3 stable t:2,3
        beat g a
          a epoch=3
        consumers g
          Stable epoch=3 assignment=3 uniform
          a epoch=3 ["t"] t:0,1 -> t:0,1
          b epoch=3 ["t"] t:2,3 -> t:2,3
        beat g a epoch=-1
          a epoch=-1
          record: g current a gone
          record: g target a gone
          record: g member a gone
          record: g epoch=4
        beat g b
          b epoch=4 t:0,1,2,3
          record: g target b t:0,1,2,3
          record: g assignment epoch=4
          record: g current b epoch=4 stable t:0,1,2,3
        list
          g consumer Stable consumer
        describe g
          Group g is not a classic group.
        beat g b epoch=-1
          b epoch=-1
          record: g current b gone
          record: g target b gone
          record: g member b gone
          record: g epoch=5
        list
          g consumer Empty consumer
        delete-groups g
          NONE
          record: g assignment gone
          record: g epoch gone
        list
    "#]]);
}
