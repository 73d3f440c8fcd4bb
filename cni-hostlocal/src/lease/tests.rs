use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn file_name_names_its_owner(container in "[a-zA-Z0-9][!-~]{0,63}", interface in "[!-~]{0,15}") {
        let owner = Owner { container, interface };
        prop_assert_eq!(Owner::from_file_name(&owner.file_name()), Some(owner));
    }

    #[test]
    fn cut_file_name_names_no_owner(container in "[a-z0-9.]{230,300}", interface in "[!-~]{15}") {
        let owner = Owner { container, interface };
        prop_assume!(owner.file_name().contains('~') && !owner.interface.contains('~'));
        prop_assert_eq!(Owner::from_file_name(&owner.file_name()), None);
    }
}
