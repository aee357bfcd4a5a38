//! Profiles and stopwatches of a device.

use candle_webgpu::{DType, Device, Value, View};

/// A device whose rules are off.
fn device() -> Device {
    let device = Device::separate(0).expect("an adapter");
    device.rewrite_by("-all").expect("rules");
    device
}

fn unary(device: &Device, op: &'static str, x: &Value, count: usize) -> Value {
    let layout = (&[count][..], &[1][..], 0);
    let x = View::new("test", x, DType::F32, layout).expect("a view");
    device.unary(op, x, [0.0; 2]).expect("recorded")
}

#[test]
fn a_profile_times_every_dispatch() {
    let device = device();
    let x = device.fill(1000, DType::F32, 0).expect("recorded");
    let before = unary(&device, "uexp", &x, 1000);
    let Ok(profile) = device.profile() else {
        let timestamps = wgpu::Features::TIMESTAMP_QUERY;
        assert!(!device.features().contains(timestamps));
        return;
    };
    assert!(device.profile().is_err(), "one at a time");
    let all: Vec<_> = (0..200)
        .map(|_| unary(&device, "uneg", &before, 1000))
        .collect();
    let timings = profile.finish().expect("timings");
    assert_eq!(timings.len(), all.len());
    assert!(timings.iter().all(|t| t.kernel.starts_with("unary.uneg")));
    assert!(timings.is_sorted_by_key(|t| t.begin));
    device.synchronize().expect("no error");
    drop(device.profile().expect("the one before is over"));
}

#[test]
fn a_stopwatch_adds_up_submits() {
    const COUNT: usize = 1 << 16;
    let device = device();
    let x = device.fill(COUNT, DType::F32, 0).expect("recorded");
    let time = |runs: usize| {
        let watch = device.stopwatch().ok()?;
        assert!(device.profile().is_err(), "one at a time");
        for _ in 0..runs {
            unary(&device, "uexp", &x, COUNT);
        }
        Some(watch.finish().expect("a time"))
    };
    let Some(nothing) = time(0) else {
        return;
    };
    assert!(nothing.is_zero());
    let (short, long) = (time(100), time(2000));
    assert!(
        short.is_some_and(|t| !t.is_zero()) && long > short,
        "{short:?} {long:?}"
    );
}
