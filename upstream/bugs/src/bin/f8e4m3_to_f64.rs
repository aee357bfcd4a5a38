//! The cast from f8e4m3 to f64, in a child process that may take five seconds.

use std::process::{Command, Stdio};
use std::time::Duration;

use candle_core::{DType, Device, Result, Tensor};

fn main() -> Result<()> {
    let x = Tensor::new(&[1f32, 2., 3.], &Device::Cpu)?.to_dtype(DType::F8E4M3)?;
    if std::env::args().len() > 1 {
        x.to_dtype(DType::F64)?;
        return Ok(());
    }
    println!("through f32: {:?}", x.to_dtype(DType::F32)?.to_dtype(DType::F64)?.to_vec1::<f64>()?);
    let mut child = Command::new(std::env::current_exe()?).arg("child").stderr(Stdio::null()).spawn()?;
    std::thread::sleep(Duration::from_secs(5));
    if child.try_wait()?.is_some_and(|status| status.success()) {
        candle_core::bail!("not reproduced")
    }
    child.kill()?;
    println!("directly: never returns, or overflows the stack");
    Ok(())
}
