//! Microsoft's DirectX shader compiler, from its library for Linux.
//!
//! The few methods needed are declared here, after dxcapi.h of DXC 1.7: hassle-rs 0.12 expects other vtables, and earlier versions of it
//! do not compile any more.

use std::ffi::c_void;
use std::path::Path;
use std::ptr;

use anyhow::{anyhow, ensure, Context, Result};
use libloading::{Library, Symbol};

use crate::compiler::Statistics;

/// As wgpu calls it (wgpu-hal 30).
const ARGUMENTS: [&str; 8] = [
    "-E",
    "main",
    "-T",
    "cs_6_2",
    "-HV",
    "2018",
    "-enable-16bit-types",
    "-Zpr",
];

#[repr(C)]
struct Guid(u32, u16, u16, [u8; 8]);

const DXC_COMPILER: Guid = Guid(
    0x73e2_2d93,
    0xe6ce,
    0x47f3,
    [0xb5, 0xbf, 0xf0, 0x66, 0x4f, 0x39, 0xc1, 0xb0],
);
const COMPILER3: Guid = Guid(
    0x228b_4687,
    0x5a6a,
    0x4730,
    [0x90, 0x0c, 0x97, 0x02, 0xb2, 0x20, 0x3f, 0x54],
);
const RESULT: Guid = Guid(
    0x5834_6cda,
    0xdde7,
    0x4497,
    [0x94, 0x61, 0x6f, 0x87, 0xaf, 0x5e, 0x06, 0x59],
);

/// The first methods of every interface. On Linux, two virtual destructors follow `Release`.
#[repr(C)]
struct Unknown {
    query_interface: *const c_void,
    add_ref: *const c_void,
    release: unsafe extern "C" fn(*mut c_void) -> u32,
    destructors: [*const c_void; 2],
}

#[repr(C)]
struct CompilerMethods {
    unknown: Unknown,
    compile: unsafe extern "C" fn(
        *mut c_void,
        source: *const Buffer,
        arguments: *const *const i32,
        count: u32,
        includes: *mut c_void,
        interface: *const Guid,
        result: *mut *mut c_void,
    ) -> i32,
}

#[repr(C)]
struct ResultMethods {
    unknown: Unknown,
    get_status: unsafe extern "C" fn(*mut c_void, *mut i32) -> i32,
    get_result: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> i32,
    get_error_buffer: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> i32,
}

#[repr(C)]
struct BlobMethods {
    unknown: Unknown,
    get_buffer_pointer: unsafe extern "C" fn(*mut c_void) -> *const u8,
    get_buffer_size: unsafe extern "C" fn(*mut c_void) -> usize,
}

#[repr(C)]
struct Buffer {
    text: *const u8,
    bytes: usize,
    encoding: u32,
}

const UTF8: u32 = 65001;

/// An object with methods `M`.
struct Object<M>(*mut *const M);

impl<M> Object<M> {
    /// # Safety
    /// `object` is null or an object of DXC with these methods, which is owned by the caller.
    unsafe fn new(object: *mut c_void) -> Result<Self> {
        ensure!(!object.is_null(), "DXC returned nothing");
        Ok(Object(object.cast()))
    }

    fn this(&self) -> *mut c_void {
        self.0.cast()
    }

    fn methods(&self) -> &M {
        // SAFETY: by the contract of `new`.
        unsafe { &**self.0 }
    }
}

impl<M> Drop for Object<M> {
    fn drop(&mut self) {
        // SAFETY: by the contract of `new`, the methods begin with those of `Unknown`.
        unsafe {
            let unknown = &**self.0.cast::<*const Unknown>();
            (unknown.release)(self.this());
        }
    }
}

impl Object<BlobMethods> {
    fn bytes(&self) -> &[u8] {
        let methods = self.methods();
        // SAFETY: the blob lives as long as the slice.
        unsafe {
            let (start, bytes) = (
                (methods.get_buffer_pointer)(self.this()),
                (methods.get_buffer_size)(self.this()),
            );
            match start.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(start, bytes),
            }
        }
    }
}

fn check(what: &str, status: i32) -> Result<()> {
    ensure!(status >= 0, "DXC: {what}: {status:#x}");
    Ok(())
}

pub struct Dxc {
    compiler: Object<CompilerMethods>,
    // Last, since it contains the compiler's code.
    _library: Library,
}

impl Dxc {
    pub fn open(path: &Path) -> Result<Self> {
        type Create = unsafe extern "C" fn(*const Guid, *const Guid, *mut *mut c_void) -> i32;
        // SAFETY: the user names DXC's library; its interface is declared above.
        unsafe {
            let library = Library::new(path).with_context(|| path.display().to_string())?;
            let create: Symbol<'_, Create> = library.get(b"DxcCreateInstance")?;
            let mut compiler = ptr::null_mut();
            let status = create(&DXC_COMPILER, &COMPILER3, &mut compiler);
            check("DxcCreateInstance", status)?;
            Ok(Dxc {
                compiler: Object::new(compiler)?,
                _library: library,
            })
        }
    }

    pub fn compile(&self, text: &str) -> Result<Statistics> {
        let wide = |argument: &str| -> Vec<i32> {
            let chars = argument.chars().map(|c| c as i32);
            chars.chain([0]).collect()
        };
        let arguments = ARGUMENTS.map(wide);
        let arguments = arguments.each_ref().map(|argument| argument.as_ptr());
        let source = Buffer {
            text: text.as_ptr(),
            bytes: text.len(),
            encoding: UTF8,
        };
        // SAFETY: all pointers live until the call returns; results are objects that the caller owns.
        unsafe {
            let mut result = ptr::null_mut();
            let status = (self.compiler.methods().compile)(
                self.compiler.this(),
                &source,
                arguments.as_ptr(),
                arguments.len() as u32,
                ptr::null_mut(),
                &RESULT,
                &mut result,
            );
            check("Compile", status)?;
            let result = Object::<ResultMethods>::new(result)?;
            let methods = result.methods();
            let mut status = 0;
            check(
                "GetStatus",
                (methods.get_status)(result.this(), &mut status),
            )?;
            let mut blob = ptr::null_mut();
            if status >= 0 {
                check("GetResult", (methods.get_result)(result.this(), &mut blob))?;
                let code = Object::<BlobMethods>::new(blob)?;
                return Ok(vec![("DXIL bytes".to_owned(), code.bytes().len() as u64)]);
            }
            let status = (methods.get_error_buffer)(result.this(), &mut blob);
            check("GetErrorBuffer", status)?;
            let errors = Object::<BlobMethods>::new(blob)?;
            let errors = String::from_utf8_lossy(errors.bytes()).into_owned();
            let first = errors.lines().find(|line| line.contains("error"));
            Err(anyhow!("{}", first.unwrap_or(&errors)))
        }
    }
}
