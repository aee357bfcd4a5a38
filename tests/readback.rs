//! Non-blocking readbacks give the same results as blocking ones, natively; tests/web does the same in a browser.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, IndexOp, Tensor};
use pollster::block_on;

fn device() -> Result<Device> {
    Ok(Device::new_webgpu(0)?)
}

/// Whichever readback is next reports a fault, and all tests share the device, so they run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn numbers(device: &Device) -> Result<Tensor> {
    Ok(Tensor::arange(0u32, 120, device)?.reshape((4, 5, 6))?)
}

#[test]
fn to_scalar_and_vec0() -> Result<()> {
    let _alone = alone();
    let x = numbers(&device()?)?;
    assert_eq!(block_on(x.i((3, 4, 5))?.to_scalar_async::<u32>())?, 119);
    assert_eq!(block_on(x.i((1, 2, 3))?.to_vec0_async::<u32>())?, 45);
    assert!(block_on(x.to_scalar_async::<u32>()).is_err());
    Ok(())
}

#[test]
fn to_vec1_of_views() -> Result<()> {
    let _alone = alone();
    let x = numbers(&device()?)?;
    for view in [x.i((2, 3))?, x.i((.., 2, 1))?, x.i((1, .., 5))?] {
        assert_eq!(
            block_on(view.to_vec1_async::<u32>())?,
            view.to_vec1::<u32>()?
        );
    }
    let one = x.i((0, 0, 0))?.broadcast_as(7)?;
    assert_eq!(block_on(one.to_vec1_async::<u32>())?, [0; 7]);
    let none = x.i((0, 0, 0..0))?;
    assert_eq!(block_on(none.to_vec1_async::<u32>())?, [0; 0]);
    assert!(block_on(x.i((2, 3))?.to_vec1_async::<f32>()).is_err());
    Ok(())
}

#[test]
fn to_vec2_and_vec3_of_views() -> Result<()> {
    let _alone = alone();
    let x = numbers(&device()?)?;
    for view in [x.i(1)?, x.i((.., 2))?, x.i(3)?.t()?] {
        assert_eq!(
            block_on(view.to_vec2_async::<u32>())?,
            view.to_vec2::<u32>()?
        );
    }
    for view in [x.i(1..3)?, x.transpose(0, 2)?, x.i((.., 1..2))?] {
        assert_eq!(
            block_on(view.to_vec3_async::<u32>())?,
            view.to_vec3::<u32>()?
        );
    }
    Ok(())
}

#[test]
fn every_dtype_from_an_odd_offset() -> Result<()> {
    let _alone = alone();
    let device = device()?;
    let x = Tensor::arange(0f32, 40., &Device::Cpu)?;
    for dtype in [
        DType::U8,
        DType::U32,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::BF16,
        DType::F16,
        DType::F32,
        DType::F64,
        DType::F8E4M3,
    ] {
        let there = x.to_device(&device)?.to_dtype(dtype)?.i(7..20)?;
        let here = block_on(there.to_device_async(&Device::Cpu))?;
        assert!(here.device().is_cpu() && here.dtype() == dtype);
        let expected = x.to_dtype(dtype)?.i(7..20)?.to_dtype(DType::F32)?;
        let got = here.to_dtype(DType::F32)?;
        assert_eq!(got.to_vec1::<f32>()?, expected.to_vec1::<f32>()?);
    }
    Ok(())
}

#[test]
fn to_device_both_ways_and_elsewhere() -> Result<()> {
    let _alone = alone();
    let (device, x) = (device()?, Tensor::new(&[1f32, 2.], &Device::Cpu)?);
    let there = block_on(x.to_device_async(&device))?;
    assert!(there.device().is_webgpu());
    assert!(block_on(there.to_device_async(&device))?
        .device()
        .is_webgpu());
    assert_eq!(block_on(x.to_vec1_async::<f32>())?, [1., 2.]);
    Ok(())
}

#[test]
fn a_gradient_goes_through() -> Result<()> {
    let _alone = alone();
    let x = candle_core::Var::new(&[3f32], &device()?)?;
    let y = block_on(x.sqr()?.to_device_async(&Device::Cpu))?;
    assert_eq!(y.to_vec1::<f32>()?, [9.]);
    let grads = y.sum_all()?.backward()?;
    let grad = grads.get(&x).map(|g| block_on(g.to_vec1_async::<f32>()));
    assert_eq!(grad.transpose()?, Some(vec![6.]));
    Ok(())
}

#[test]
fn what_is_written_later_is_not_read() -> Result<()> {
    let _alone = alone();
    let x = Tensor::zeros(4, DType::F32, &device()?)?;
    let mut reading = std::pin::pin!(x.to_vec1_async::<f32>());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    // The first poll makes the copy.
    let first = reading.as_mut().poll(&mut context);
    x.const_set(7f32.into())?;
    let read = match first {
        std::task::Poll::Ready(read) => read,
        std::task::Poll::Pending => block_on(reading),
    };
    assert_eq!(read?, [0.; 4]);
    assert_eq!(x.to_vec1::<f32>()?, [7.; 4]);
    Ok(())
}

/// A caller that records on before it takes what it reads gets the same bytes, by fewer submits.
#[test]
fn passes_run_ahead() -> Result<()> {
    const PASSES: usize = 6;
    let _alone = alone();
    let device = device()?;
    let submits = || anyhow::Ok(device.as_webgpu_device()?.stats().submits);
    let pass = |mut x: Tensor| -> Result<Tensor> {
        for _ in 0..300 {
            x = (x.t()?.contiguous()? + 1.)?;
        }
        Ok(x)
    };
    let run = |ahead: bool| -> Result<(Vec<f32>, u64)> {
        let before = submits()?;
        let mut x = Tensor::zeros((2, 3), DType::F32, &device)?;
        let mut read = Vec::new();
        for _ in 0..PASSES {
            x = pass(x)?;
            let first = x.flatten_all()?.i(0)?;
            let mut reading = std::pin::pin!(first.to_scalar_async::<f32>());
            if ahead {
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                assert!(reading.as_mut().poll(&mut context).is_pending());
                x = pass(x)?;
            }
            read.push(block_on(reading)?);
            if !ahead {
                x = pass(x)?;
            }
        }
        Ok((read, submits()? - before))
    };
    let ((waiting, many), (ahead, few)) = (run(false)?, run(true)?);
    assert_eq!(waiting, ahead);
    assert!(few < many, "{few} submits ahead, {many} otherwise");
    Ok(())
}

#[test]
fn more_than_a_staging_buffer() -> Result<()> {
    let _alone = alone();
    let x = Tensor::arange(0u32, 20 << 20, &device()?)?;
    let read = block_on(x.i(3..)?.to_vec1_async::<u32>())?;
    assert!(read.iter().zip(3..).all(|(a, b)| *a == b) && read.len() == (20 << 20) - 3);
    Ok(())
}

#[test]
fn blocks_of_quantized_tensors() -> Result<()> {
    let _alone = alone();
    let x = Tensor::randn(0f32, 1., (4, 256), &Device::Cpu)?;
    for dtype in [GgmlDType::Q4_0, GgmlDType::Q6K, GgmlDType::F16] {
        let here = QTensor::quantize(&x, dtype)?;
        let there = QTensor::quantize_onto(&x, dtype, &device()?)?;
        assert_eq!(block_on(there.data_async())?, here.data()?);
        assert_eq!(block_on(here.data_async())?, here.data()?);
    }
    Ok(())
}

#[test]
fn the_same_device_and_its_faults() -> Result<()> {
    let _alone = alone();
    let device = block_on(Device::new_webgpu_async(0))?;
    assert!(device.same_device(&block_on(Device::webgpu_if_available_async(0))?));
    assert!(device.same_device(&Device::new_webgpu(0)?));
    let x = Tensor::arange(0f32, 4., &device)?;
    block_on(device.synchronize_async())?;
    block_on(Device::Cpu.synchronize_async())?;
    let wrong = x.index_select(&Tensor::new(&[9u32], &device)?, 0)?;
    let error = block_on(wrong.to_vec1_async::<f32>()).err();
    assert!(error.is_some_and(|e| e.to_string().contains('9')));
    let _wrong = x.index_select(&Tensor::new(&[8u32], &device)?, 0)?;
    assert!(block_on(device.synchronize_async()).is_err());
    assert_eq!(block_on(x.to_vec1_async::<f32>())?, [0., 1., 2., 3.]);
    Ok(())
}

#[test]
fn a_future_can_move_between_threads() -> Result<()> {
    let _alone = alone();
    let x = numbers(&device()?)?.i((0, 0))?;
    let reading = async move { x.to_vec1_async::<u32>().await };
    let read = std::thread::spawn(move || block_on(reading)).join();
    assert_eq!(read.expect("no panic")?, [0, 1, 2, 3, 4, 5]);
    Ok(())
}
