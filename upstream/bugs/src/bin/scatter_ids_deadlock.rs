//! An in-place scatter whose ids are the tensor that it writes, in a thread that may take five seconds.

use std::sync::mpsc::channel;
use std::time::Duration;

use candle_core::{Device, Result, Tensor};

fn main() -> Result<()> {
    let x = Tensor::new(&[2u32, 1, 0], &Device::Cpu)?;
    let source = Tensor::new(&[10u32, 20, 30], &Device::Cpu)?;
    println!("scatter: {:?}", x.scatter(&x, &source, 0)?.to_vec1::<u32>()?);
    let (done, wait) = channel();
    std::thread::spawn(move || done.send(x.scatter_set(&x, &source, 0).map_err(|e| e.to_string())));
    if let Ok(result) = wait.recv_timeout(Duration::from_secs(5)) {
        candle_core::bail!("not reproduced: {result:?}")
    }
    println!("scatter_set: does not return");
    Ok(())
}
