//! WAV file to Whisper's input: the log mel spectrogram, in steps of 10 ms.

use candle_core::{Device, Tensor};
use candle_examples::{Error, Result};
use candle_transformers::models::whisper::{audio::pcm_to_mel, Config};
use candle_transformers::models::whisper::{N_FFT, N_FRAMES, SAMPLE_RATE};
use hound::{SampleFormat, WavReader};
use std::path::Path;

pub const RATE: usize = SAMPLE_RATE;

/// The samples, averaged over all channels, from -1 to 1.
pub fn read(path: &Path) -> Result<Vec<f32>> {
    let bad = |reason: String| Error::Audio {
        path: path.to_path_buf(),
        reason,
    };
    let file = std::fs::File::open(path).map_err(Error::io(path))?;
    let mut wav = WavReader::new(std::io::BufReader::new(file)).map_err(|e| bad(e.to_string()))?;
    let spec = wav.spec();
    if spec.sample_rate as usize != RATE {
        return Err(bad(format!(
            "it has {} samples per second, not {RATE}; convert it with `ffmpeg -i IN -ar {RATE} OUT`",
            spec.sample_rate
        )));
    }
    let samples: Result<Vec<f32>, _> = match spec.sample_format {
        SampleFormat::Float => wav.samples::<f32>().collect(),
        SampleFormat::Int => {
            let scale = 1. / (1u64 << (spec.bits_per_sample.clamp(1, 32) - 1)) as f32;
            let samples = wav.samples::<i32>();
            samples.map(|s| s.map(|s| s as f32 * scale)).collect()
        }
    };
    let samples = samples.map_err(|e| bad(e.to_string()))?;
    let channels = usize::from(spec.channels.max(1));
    let mean = |frame: &[f32]| frame.iter().sum::<f32>() / channels as f32;
    let samples: Vec<f32> = samples.chunks_exact(channels).map(mean).collect();
    if samples.is_empty() {
        return Err(bad("it has no samples".to_string()));
    }
    Ok(samples)
}

/// The spectrogram (1, bands, 3000) of at most 30 seconds, padded with silence.
pub fn spectrum(samples: &[f32], config: &Config, device: &Device) -> Result<Tensor> {
    let bands = config.num_mel_bins;
    let mel = pcm_to_mel(config, samples, &filters(bands));
    let frames = mel.len() / bands;
    let mel = Tensor::from_vec(mel, (1, bands, frames), &Device::Cpu)?;
    Ok(mel.narrow(2, 0, N_FRAMES)?.to_device(device)?)
}

/// Slaney's mel filters (bands, frequencies): triangles of equal area, linear below 1000 Hz, logarithmic above.
fn filters(bands: usize) -> Vec<f32> {
    let step = 6.4f64.ln() / 27.;
    let mel = 15. + (RATE as f64 / 2. / 1000.).ln() / step;
    let hertz = |mel: f64| match mel {
        m if m < 15. => m * 200. / 3.,
        m => 1000. * ((m - 15.) * step).exp(),
    };
    let corner = |i: usize| hertz(mel * i as f64 / (bands + 1) as f64);
    let filter = |band: usize| {
        let [low, mid, high] = [band, band + 1, band + 2].map(corner);
        (0..=N_FFT / 2).map(move |i| {
            let frequency = i as f64 * RATE as f64 / N_FFT as f64;
            let (up, down) = (
                (frequency - low) / (mid - low),
                (high - frequency) / (high - mid),
            );
            (up.min(down).max(0.) * 2. / (high - low)) as f32
        })
    };
    (0..bands).flat_map(filter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_those_that_whisper_was_trained_with() {
        let filters = filters(80);
        assert_eq!(filters.len(), 80 * 201);
        for (band, i, expected) in [(0, 0, 0.), (0, 1, 0.024862595), (40, 43, 0.014735566)] {
            let got: f32 = filters[band * 201 + i];
            assert!((got - expected).abs() < 1e-8, "{band} {i}: {got}");
        }
    }
}
