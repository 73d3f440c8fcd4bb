use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use serde_json::json;

use super::Cache;
use crate::objects::name;

fn object(name: &str, version: &str) -> DynamicObject {
    let metadata = json!({"name": name, "namespace": "n", "resourceVersion": version});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn names(cache: &Cache) -> Vec<&str> {
    cache.objects().map(name).collect()
}

#[test]
fn objects_stay_until_the_new_list_is_complete() {
    let mut cache = Cache::default();
    for event in [
        Event::Init,
        Event::InitApply(object("a", "1")),
        Event::InitApply(object("b", "1")),
    ] {
        cache.apply(event).unwrap();
    }
    assert!(!cache.is_complete && names(&cache).is_empty());
    cache.apply(Event::InitDone).unwrap();
    assert_eq!(names(&cache), ["a", "b"]);
    cache.apply(Event::Init).unwrap();
    cache.apply(Event::InitApply(object("c", "2"))).unwrap();
    assert_eq!(names(&cache), ["a", "b"]);
    cache.apply(Event::InitDone).unwrap();
    assert_eq!(names(&cache), ["c"]);
}

#[test]
fn events_change_objects() {
    let mut cache = Cache::default();
    cache.apply(Event::Apply(object("a", "1"))).unwrap();
    assert_eq!(names(&cache), ["a"]);
    cache.apply(Event::Delete(object("a", "2"))).unwrap();
    assert!(names(&cache).is_empty());
}
