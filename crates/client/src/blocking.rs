//! The same clients for programs without an asynchronous runtime: each call blocks its thread until
//! it has ended. With the feature `blocking`, which is on by default.
//!
//! Every client here owns a runtime with one thread, which is where its tasks run. Calls from within
//! an asynchronous runtime, whose thread they would block, are refused with [`Error::Invalid`].
//!
//! ```no_run
//! use riverrun_client::blocking::{Consumer, Producer};
//! use riverrun_client::consumer::ConsumerConfig;
//! use riverrun_client::producer::{ProducerConfig, ProducerRecord};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), riverrun_client::Error> {
//! let producer = Producer::new(ProducerConfig::with_bootstrap_servers("localhost:9092")?)?;
//! let written = producer.send(ProducerRecord::new("orders").value(b"apples"))?.wait()?;
//! println!("{}-{} at {:?}", written.topic, written.partition, written.offset);
//!
//! let mut consumer = Consumer::new(ConsumerConfig::new("localhost:9092", "billing")?)?;
//! consumer.subscribe(["orders"])?;
//! let mut records = consumer.poll(Duration::from_secs(1))?;
//! records.for_each(|record| println!("{:?}", record.value))?;
//! consumer.close(Duration::from_secs(10))
//! # }
//! ```

use crate::admin::AdminConfig;
use crate::consumer::{ConsumerConfig, OwnedRecord, Records};
use crate::producer::{ProducerConfig, ProducerRecord, RecordMetadata};
use crate::{Error, admin, consumer, producer};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime;

/// A runtime that ends with the last client or delivery that uses it.
#[derive(Clone)]
struct Runtime(Arc<Owned>);

struct Owned(Option<runtime::Runtime>);

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Where it is dropped may be within a runtime, which must not wait.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runtime")
    }
}

impl Runtime {
    fn start() -> Result<Self, Error> {
        let started = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("riverrun-client")
            .enable_all()
            .build();
        let runtime = started
            .map_err(|error| Error::Invalid(format!("no thread for the client: {error}")))?;
        Ok(Self(Arc::new(Owned(Some(runtime)))))
    }

    /// Waits for `future` on the caller's thread.
    fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Error> {
        if runtime::Handle::try_current().is_ok() {
            let reason = "a blocking client is called within an asynchronous runtime: use the client \
                          that is not blocking there";
            return Err(Error::Invalid(reason.to_owned()));
        }
        Ok(self.runtime().block_on(future))
    }

    /// Does what needs a runtime, without waiting.
    fn within<T>(&self, call: impl FnOnce() -> T) -> T {
        let _entered = self.runtime().enter();
        call()
    }

    fn runtime(&self) -> &runtime::Runtime {
        self.0.0.as_ref().expect("it is taken when it is dropped")
    }
}

/// See [`producer::Producer`].
#[derive(Debug, Clone)]
pub struct Producer {
    // Before the runtime: clients end within it.
    producer: producer::Producer,
    runtime: Runtime,
}

/// What becomes of a record; see [`producer::Delivery`].
#[derive(Debug)]
pub struct Delivery {
    delivery: producer::Delivery,
    runtime: Runtime,
}

impl Delivery {
    /// Where the record was written, once it was.
    ///
    /// # Errors
    /// Why it was not, or may not have been, within `delivery.timeout.ms`.
    pub fn wait(self) -> Result<RecordMetadata, Error> {
        self.runtime.wait(self.delivery)?
    }
}

impl Producer {
    /// A producer with this configuration. Connects when there is something to send.
    ///
    /// # Errors
    /// [`Error::Configuration`] when settings contradict each other, [`Error::Invalid`] when no
    /// thread can be started.
    pub fn new(config: ProducerConfig) -> Result<Self, Error> {
        let runtime = Runtime::start()?;
        let producer = runtime.within(|| producer::Producer::new(config))?;
        Ok(Self { producer, runtime })
    }

    /// As [`producer::Producer::send`].
    ///
    /// # Errors
    /// As [`producer::Producer::send`].
    pub fn send(&self, record: ProducerRecord<'_>) -> Result<Delivery, Error> {
        let delivery = self.runtime.wait(self.producer.send(record))??;
        Ok(Delivery {
            delivery,
            runtime: self.runtime.clone(),
        })
    }

    /// As [`producer::Producer::flush`].
    ///
    /// # Errors
    /// [`Error::Invalid`] within a runtime.
    pub fn flush(&self) -> Result<(), Error> {
        self.runtime.wait(self.producer.flush())
    }

    /// As [`producer::Producer::close`].
    ///
    /// # Errors
    /// As [`producer::Producer::close`].
    pub fn close(&self, timeout: Duration) -> Result<(), Error> {
        self.runtime
            .wait(async { self.producer.close(timeout).await })?
    }

    /// Any other call, such as those of transactions:
    /// `producer.call(async |producer| producer.commit_transaction().await)`.
    ///
    /// # Errors
    /// Those of the call; [`Error::Invalid`] within a runtime.
    pub fn call<T>(
        &self,
        call: impl AsyncFnOnce(&producer::Producer) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.runtime.wait(call(&self.producer))?
    }
}

/// See [`consumer::Consumer`].
#[derive(Debug)]
pub struct Consumer {
    consumer: consumer::Consumer,
    runtime: Runtime,
}

impl Consumer {
    /// A consumer that reads nothing yet; connects to brokers in the background.
    ///
    /// # Errors
    /// [`Error::Configuration`] when settings contradict each other, [`Error::Invalid`] when no
    /// thread can be started.
    pub fn new(config: ConsumerConfig) -> Result<Self, Error> {
        let runtime = Runtime::start()?;
        let consumer = runtime.within(|| consumer::Consumer::new(config))?;
        Ok(Self { consumer, runtime })
    }

    /// As [`consumer::Consumer::subscribe`].
    ///
    /// # Errors
    /// As [`consumer::Consumer::subscribe`].
    pub fn subscribe<T: Into<String>>(
        &mut self,
        topics: impl IntoIterator<Item = T>,
    ) -> Result<(), Error> {
        let consumer = &mut self.consumer;
        self.runtime.within(|| consumer.subscribe(topics))
    }

    /// As [`consumer::Consumer::poll`].
    ///
    /// # Errors
    /// As [`consumer::Consumer::poll`].
    pub fn poll(&mut self, timeout: Duration) -> Result<Records, Error> {
        let consumer = &mut self.consumer;
        self.runtime.wait(async { consumer.poll(timeout).await })?
    }

    /// As [`consumer::Consumer::next`].
    ///
    /// # Errors
    /// As [`consumer::Consumer::next`].
    pub fn next_record(&mut self) -> Result<OwnedRecord, Error> {
        let consumer = &mut self.consumer;
        self.runtime.wait(async { consumer.next().await })?
    }

    /// As [`consumer::Consumer::commit`].
    ///
    /// # Errors
    /// As [`consumer::Consumer::commit`].
    pub fn commit(&mut self) -> Result<(), Error> {
        let consumer = &mut self.consumer;
        self.runtime.wait(async { consumer.commit().await })?
    }

    /// As [`consumer::Consumer::close`].
    ///
    /// # Errors
    /// As [`consumer::Consumer::close`].
    pub fn close(self, timeout: Duration) -> Result<(), Error> {
        let Self { consumer, runtime } = self;
        runtime.wait(async { consumer.close(timeout).await })?
    }

    /// Any other call: `consumer.call(async |consumer| consumer.committed(&partitions).await)`.
    ///
    /// # Errors
    /// Those of the call; [`Error::Invalid`] within a runtime.
    pub fn call<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut consumer::Consumer) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.runtime.wait(call(&mut self.consumer))?
    }
}

/// See [`admin::Admin`].
#[derive(Debug, Clone)]
pub struct Admin {
    admin: admin::Admin,
    runtime: Runtime,
}

impl Admin {
    /// An admin client; connects when it is first asked for something.
    ///
    /// # Errors
    /// [`Error::Configuration`] when no broker is named, [`Error::Invalid`] when no thread can be
    /// started.
    pub fn new(config: AdminConfig) -> Result<Self, Error> {
        let runtime = Runtime::start()?;
        let admin = runtime.within(|| admin::Admin::new(config))?;
        Ok(Self { admin, runtime })
    }

    /// Any call: `admin.call(async |admin| admin.create_topics(&topics).await)`.
    ///
    /// # Errors
    /// [`Error::Invalid`] within a runtime.
    pub fn call<T>(&self, call: impl AsyncFnOnce(&admin::Admin) -> T) -> Result<T, Error> {
        self.runtime.wait(call(&self.admin))
    }
}
