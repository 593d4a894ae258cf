/* Search from a file: a page that was not loaded from a server may not start a worker, so the
   worker's script runs in a hidden frame instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      this.frame = frame;
      this.ready = new Promise((done, failed) => {
        frame.onload = () => {
          frame.onload = null;
          const inner = frame.contentWindow;
          inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inner.document.createElement("script");
          script.src = new URL(url, location.href).href;
          script.onload = () => done(inner);
          script.onerror = failed;
          inner.document.head.append(script);
        };
      });
      document.documentElement.append(frame);
    }
    postMessage(data) {
      this.ready.then(inner => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
