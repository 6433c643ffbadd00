"""A real browser without a window, told what to do over a pipe (Chromium's DevTools protocol)."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--remote-debugging-pipe"),
)
KEYS = {"Tab": 9, "Enter": 13, "ArrowDown": 40}


class Browser:
    """A page. `asked` are the requested URLs, `problems` the messages of the console."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = os.fdopen(reading, "rb")
        self._writing = os.fdopen(writing, "wb")
        self._number = 0
        self._left = b""
        self._session: str | None = None
        self.asked: list[str] = []
        self.problems: list[str] = []
        self._loaded = 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Have something done, and take notice of what happens meanwhile."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._writing.write(json.dumps(message).encode() + b"\0")
        self._writing.flush()
        while (answer := self._next()).get("id") != self._number:
            self._notice(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, url: str) -> None:
        before = self._loaded
        self.call("Page.navigate", url=url)
        self.wait_for_load(before)

    def wait_for_load(self, before: int) -> None:
        while self._loaded == before:
            self._notice(self._next())

    def press(self, key: str, *, leads: bool = False) -> None:
        """A key. `leads`: a page is loaded by it."""
        before = self._loaded
        text = "\r" if key == "Enter" else ""
        named = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown", **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)
        if leads:
            self.wait_for_load(before)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def ask(self, script: str) -> Any:
        """The value of an expression in the page. It is the tester's own: the page's policy does not hold for it."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def dark(self, wanted: bool) -> None:
        value = "dark" if wanted else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def resize(self, width: int, height: int = 800) -> None:
        mobile = width < 500
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def picture(self, path: Path) -> None:
        """Save the visible part of the page as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            data = os.read(self._reading.fileno(), 1 << 20)
            if not data:
                raise EOFError("the browser is gone")
            self._left += data
        message, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _notice(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded += 1
        elif method == "Log.entryAdded":
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
            self.problems.append(json.dumps(params))


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile."""
    to_read, to_write, from_read, from_write = *os.pipe(), *os.pipe()

    def take_pipes() -> None:
        # away from the numbers that they go to
        reading, writing = os.dup(to_read), os.dup(from_write)
        os.dup2(reading, 3)
        os.dup2(writing, 4)

    started = subprocess.Popen(
        ["chromium", *FLAGS, f"--user-data-dir={folder}"],
        preexec_fn=take_pipes,
        pass_fds=(3, 4),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        yield Browser(from_read, to_write)
    finally:
        started.terminate()
        started.wait(30)
