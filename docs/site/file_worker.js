// The theme's search runs in a Worker, which browsers do not start from a page on disk (file:). There this class takes
// Worker's place: it runs the same script in a hidden frame, whose `message` events and `postMessage` are connected to it.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((resolve) => {
        document.addEventListener("DOMContentLoaded", resolve);
        if (document.readyState !== "loading") resolve();
      }).then(() => this.load(url));
    }
    load(url) {
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.deliver(new MessageEvent("message", { data }));
      inside.importScripts = () => {}; // the stemmers of languages other than English
      const script = this.frame.contentDocument.createElement("script");
      script.src = new URL(url, location.href);
      return new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = reject;
        this.frame.contentDocument.body.append(script);
      });
    }
    deliver(event) {
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }
    postMessage(data) {
      this.ready.then(() => {
        const inside = this.frame.contentWindow;
        const event = new inside.MessageEvent("message", { data });
        inside.dispatchEvent(event);
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
