//! A restore that was cut off goes on, also when the archive is another one by then.

use archive::Point;
use base::Lsn;
use env_sim::sweep::crash_everywhere;
use env_sim::{Faults, SimDisk};

use crate::tidy::{KEEP, Old};
use crate::world::{Coding, contents_of, keyed, restore_into};

/// Cut off at every I/O; thinned out, once or twice, before it is run again. What whole blocks had and a leap has not must not come together.
#[test]
fn an_archive_may_be_thinned_out_before_a_restore_goes_on() {
    let (mut resumed, mut anew) = (0, 0);
    for seed in 0..6 {
        let mut old = Old::new(seed, Coding::of_seed(seed));
        old.hours(30);
        let keys = old.world.mood.lock().unwrap().coding.keys();
        if seed % 2 == 1 {
            old.tidy("1h:all 60d:hour");
        }
        let (before, after) = (old.world.target_disk.fork(), old.world.target_disk.fork());
        old.tidy_on(&after, if seed % 3 == 0 { KEEP } else { "1h:all 2h:hour 60d:day" }).unwrap();
        let (before, after) = (keyed(&before, keys.clone()), keyed(&after, keys));
        // States that both have.
        let picture = crate::world::picture(&after);
        let kept = (1..=old.world.database.last()).filter(|lsn| picture.chain(Lsn(*lsn)).is_some());
        let kept: Vec<u64> = kept.collect();
        for lsn in [kept[kept.len() / 2], kept[kept.len() - 1]] {
            crash_everywhere(
                &SimDisk::new(3, Faults::default()),
                |disk| drop(restore_into(disk, &before, Point::Lsn(lsn))),
                |disk, ()| {
                    if !redo::is_there(disk, std::path::Path::new(crate::world::INTO)) {
                        let done = restore_into(disk, &after, Point::Lsn(lsn)).unwrap();
                        *(if done.is_resumed { &mut resumed } else { &mut anew }) += 1;
                    }
                    let found = contents_of(disk);
                    assert_eq!(
                        (found.0, Some(&found.1)),
                        (lsn, old.world.states.get(&lsn)),
                        "{seed}"
                    );
                },
            );
        }
    }
    assert!(resumed > 20 && anew > 20, "{resumed} went on, {anew} began anew");
}
