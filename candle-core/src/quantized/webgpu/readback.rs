//! Readbacks of quantized tensors without blocking, as browsers require.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use super::{Form, QWebGpuStorage};
use crate::quantized::{QStorage, QTensor};
use crate::Result;

type Reading = Pin<Box<dyn Future<Output = Result<Vec<u8>>> + Send>>;

impl QTensor {
    /// [`QTensor::data`] without blocking.
    pub async fn data_async(&self) -> Result<Cow<'_, [u8]>> {
        match &self.storage {
            QStorage::WebGpu(storage) => Ok(Cow::from(storage.read_async()?.await?)),
            storage => storage.data(),
        }
    }
}

impl QWebGpuStorage {
    /// [`Self::data`] without blocking: the call records the copy, and the future resolves to its bytes.
    fn read_async(&self) -> Result<Reading> {
        let runtime = self.device.runtime();
        Ok(match super::form(self.dtype) {
            Form::Dense(_) => {
                let reading = runtime.read_async(&self.value, 0, self.bytes as u64)?;
                Box::pin(async move { Ok(reading.bytes().await?) })
            }
            Form::Blocks(quant) => {
                let blocks = self.bytes / self.dtype.type_size();
                let reading = runtime.read_blocks_async(self.blocks(quant), blocks)?;
                Box::pin(async move { Ok(reading.await?) })
            }
        })
    }
}
