// A browser refuses to start a worker from a file. So that the pages can be searched without a server, the script of a
// worker then runs in a hidden frame, with the functions that it expects.
if (location.protocol === "file:") {
  const load = (frame, url) =>
    new Promise((loaded, failed) => {
      const script = frame.contentDocument.createElement("script");
      Object.assign(script, { src: url, onload: loaded, onerror: failed });
      frame.contentDocument.body.append(script);
    });

  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #ready;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) => Promise.all(urls.map((each) => load(this.#frame, each)));
      this.#ready = load(this.#frame, url);
    }

    async postMessage(data) {
      await this.#ready;
      this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
