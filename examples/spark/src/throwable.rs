//! What Java throws, taken over into Rust.

use datafusion_counting_pool::spark::JavaThrowable;
use jni::Env;
use jni::errors::{Error, Result};
use jni::objects::JThrowable;
use jni::refs::IntoAuto;

/// Calls Java, and takes what it throws out of the JVM.
pub(crate) fn caught<T>(
    env: &mut Env<'_>,
    call: impl FnOnce(&mut Env<'_>) -> Result<T>,
) -> Result<std::result::Result<T, JavaThrowable>> {
    match call(env) {
        Err(Error::JavaException) => {
            let thrown = env.exception_occurred().ok_or(Error::JavaException)?.auto();
            env.exception_clear();
            read(env, &thrown).map(Err)
        }
        answer => answer.map(Ok),
    }
}

fn read(env: &mut Env<'_>, thrown: &JThrowable<'_>) -> Result<JavaThrowable> {
    // References to strings and classes: a task's thread that loops over native code, and never
    // returns to Java, would keep each of them.
    env.with_local_frame(LOCALS, |env| {
        let class = env.get_object_class(thrown)?.get_name(env)?.to_string();
        let message = thrown.get_message(env)?;
        let message = (!message.is_null()).then(|| message.to_string());
        let stack = thrown.get_stack_trace(env)?;
        let mut frames = Vec::new();
        for index in 0..stack.len(env)? {
            frames.push(env.with_local_frame(LOCALS, |env| {
                let element = stack.get_element(env, index)?;
                let class = element.get_class_name(env)?;
                Ok::<_, Error>(format!("{class}.{}", element.get_method_name(env)?))
            })?);
        }
        Ok(JavaThrowable {
            class,
            message,
            frames,
        })
    })
}

/// More than any of the frames here uses.
const LOCALS: usize = 8;
