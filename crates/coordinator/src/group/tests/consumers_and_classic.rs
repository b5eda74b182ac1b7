//! Members that speak the classic protocol in consumer groups, and groups that go over.
