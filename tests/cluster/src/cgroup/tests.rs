use super::*;

#[test]
fn only_controllers_that_are_there_are_enabled() {
    assert_eq!(
        enabling("cpuset cpu io memory hugetlb pids rdma misc\n"),
        "+cpuset +cpu +io +memory +hugetlb +pids"
    );
    assert_eq!(enabling("memory pids cpu\n"), "+cpu +memory +pids");
    assert_eq!(enabling("\n"), "");
}
