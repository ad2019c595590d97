"""am-plan lsp serves diagnostics, hover, completion and quick fixes of plans to editors."""

import json
import subprocess
import unittest

from cli_support import BIN, ENVIRONMENT, MODELS, SOURCE, PlanCase, run_tool

GOOD = "[mesh]\nworld_size = 16\ntp_size = 2\n[train]\nglobal_batch_size = 16\n"
SEVERITIES = {"error": 1, "warning": 2, "note": 3}
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, NOT_INITIALIZED = -32700, -32600, -32601, -32602, -32002


def frame(text):
    body = text if isinstance(text, bytes) else text.encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def units(text):
    """Returns the number of UTF-16 code units of a text."""
    return len(text.encode("utf-16-le")) // 2


def offset(text, position):
    """Returns the index in `text` of an LSP position: a line and a number of UTF-16 code units."""
    lines = text.split("\n")
    before = lines[position["line"]].encode("utf-16-le")[:2 * position["character"]].decode("utf-16-le")
    return sum(len(line) + 1 for line in lines[:position["line"]]) + len(before)


def marked(text, a_range):
    return text[offset(text, a_range["start"]):offset(text, a_range["end"])]


def edited(text, edit):
    """Returns the text after a TextEdit."""
    begin, end = offset(text, edit["range"]["start"]), offset(text, edit["range"]["end"])
    return text[:begin] + edit["newText"] + text[end:]


class Client:
    """An editor with one document, which talks to am-plan lsp."""

    def __init__(self, uri):
        self.process = subprocess.Popen([BIN / "am-plan", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=ENVIRONMENT)
        self.document = {"uri": uri}
        self.number = 0

    def initialize(self):
        result = self.request("initialize", processId=None, rootUri=None, capabilities={})
        self.notify("initialized")
        return result["capabilities"]

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self):
        """Returns the next message of the server."""
        header = self.process.stdout.readline()
        length = int(header.removeprefix(b"Content-Length: "))
        assert self.process.stdout.readline() == b"\r\n", header
        message = json.loads(self.process.stdout.read(length))
        assert message["jsonrpc"] == "2.0", message
        return message

    def answer(self, method, **params):
        """Sends a request, and returns the message that answers it."""
        self.number += 1
        self.send(frame(json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})))
        answer = self.receive()
        assert answer["id"] == self.number, answer
        return answer

    def request(self, method, **params):
        answer = self.answer(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    def notify(self, method, **params):
        self.send(frame(json.dumps({"jsonrpc": "2.0", "method": method, "params": params})))

    def published(self):
        """Returns the diagnostics of the server's next message."""
        message = self.receive()
        assert message["method"] == "textDocument/publishDiagnostics", message
        assert message["params"]["uri"] == self.document["uri"], message
        return message["params"]["diagnostics"]

    def open(self, text):
        document = {**self.document, "languageId": "toml", "version": 1, "text": text}
        self.notify("textDocument/didOpen", textDocument=document)
        return self.published()

    def change(self, text):
        document = {**self.document, "version": 2}
        self.notify("textDocument/didChange", textDocument=document, contentChanges=[{"text": text}])
        return self.published()

    def save(self):
        self.notify("textDocument/didSave", textDocument=self.document)
        return self.published()

    def at(self, method, line, character):
        return self.request(f"textDocument/{method}", textDocument=self.document,
                            position={"line": line, "character": character})

    def hover(self, line, character):
        """Returns the hover's Markdown; None if there is no hover."""
        hover = self.at("hover", line, character)
        return hover and hover["contents"]["value"]

    def actions(self, first, last, **context):
        lines = {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}
        return self.request("textDocument/codeAction", textDocument=self.document, range=lines,
                            context={"diagnostics": [], **context})

    def end(self, data=b""):
        """Sends the last data. Returns the exit status, stdout and stderr."""
        out, err = self.process.communicate(data, timeout=60)
        return self.process.returncode, out, err.decode()


class LspTest(PlanCase):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "my plän.toml"
        self.client = self.start()
        self.capabilities = self.client.initialize()

    def start(self):
        client = Client(self.path.as_uri())
        self.addCleanup(client.process.communicate)
        self.addCleanup(client.process.kill)
        return client

    def text(self, more, model=MODELS / "llama-3.1-8b"):
        """Returns a plan whose [model] section occupies its first two lines."""
        return f'[model]\npath = "{model}"\n{more}'

    def judged(self, text):
        """Returns the answer of `am-plan check` about a file with this text. The file exists only during the check."""
        self.path.write_text(text)
        try:
            return run_tool("am-plan", "check", self.path, "--json").json["plans"][0]
        finally:
            self.path.unlink()

    # ---- diagnostics ----------------------------------------------------------------------------

    def shown(self, item):
        """Returns the code, severity, line and message that an editor shows for a diagnostic of `am-plan check`."""
        elsewhere = "" if item["file"] == str(self.path) else f"{item['file']}:{item['line'] or 0}: "
        message = elsewhere + item["message"] + (f"\nhelp: {item['help']}" if item["help"] else "")
        line = item["line"] - 1 if item["line"] and not elsewhere else 0
        return item["rule"], SEVERITIES[item["severity"]], line, message

    def assert_shown(self, diagnostics, text):
        self.assertEqual([(each["code"], each["severity"], each["range"]["start"]["line"], each["message"])
                          for each in diagnostics], [self.shown(item) for item in self.judged(text)["diagnostics"]])
        self.assertEqual({each["source"] for each in diagnostics} - {"am-plan"}, set())

    def test_diagnostics_are_those_of_check(self):
        self.assertEqual(self.client.open(self.text(GOOD)), [])
        broken = self.write("broken/config.json", '{\n  "model_type": "llama",\n  "hidden_size": }\n').parent
        async_tp = ("[mesh]\nworld_size = 8\ntp_size = 2\n[strategy]\nbackend = \"nccl\"\nsequence_parallel = true\n"
                    "enable_async_tensor_parallel = true\n")
        for text, rule in [
                ("", "model.path"),
                ("[mesh\nworld_size = 3", "plan.syntax"),
                (self.text("[mesh]\nworld_size = 6\ntp_size = 3\n"), "tp.heads"),
                (self.text("[mesh]\nworld_size = 8\ntp_sizes = 3\n[trian]\nseq_len = \"a\"\n"), "plan.key"),
                (self.text("[mesh]\nworld_size = 8\n[data]\nkind = \"text\"\npath = \"absent\"\n"), "data.missing"),
                (self.text("[mesh]\nworld_size = 8\n", model="absent"), "model.path"),
                (self.text("[mesh]\nworld_size = 8\n", model=broken), "json.syntax"),
                (self.text(async_tp), "runtime.unsupported"),
                (self.text(async_tp + "[cluster]\nimplementation = \"torchtitan\"\n"), None)]:
            with self.subTest(text):
                diagnostics = self.client.change(text)
                self.assert_shown(diagnostics, text)
                if rule is not None and text:
                    self.assertIn(rule, [each["code"] for each in diagnostics])

    def test_the_rule_is_marked_in_the_text(self):
        text = self.text("[mesh]\nworld_size = 6\ntp_size = 3\n")
        for each in self.client.open(text):
            self.assertEqual((each["range"]["start"]["line"], marked(text, each["range"])), (4, "3"))

    def test_columns_count_utf16_code_units(self):
        for before in ("", "ä", "模型", "\U0001f600\U0001f600"):
            with self.subTest(before):
                text = self.text("[mesh]\nworld_size = 8\n[lora]\nrank = 8\n"
                                 f'target_modules = ["{before}", "", "q_proj"]\n')
                diagnostics = self.client.open(text)
                columns = [units(text.split("\n")[6][:item["column"] - 1])
                           for item in self.judged(text)["diagnostics"] if item["line"] == 7]
                self.assertTrue(columns)
                self.assertEqual([each["range"]["start"]["character"] for each in diagnostics
                                  if each["range"]["start"]["line"] == 6], columns)
                self.assertIn('""', [marked(text, each["range"]) for each in diagnostics])

    def test_a_finding_about_another_file_names_it_on_the_first_line(self):
        folder = self.write("broken/config.json", '{\n  "model_type": "llama",\n  "hidden_size": }\n').parent
        each = self.client.open(self.text("[mesh]\nworld_size = 8\n", model="broken"))[0]
        self.assertTrue(each["message"].startswith(f"{folder / 'config.json'}:3: "), each)
        self.assertEqual(each["range"], {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 7}})

    def test_saving_checks_again_and_closing_clears(self):
        text = self.text("[mesh]\nworld_size = 8\n", model="model")
        self.assertEqual([each["code"] for each in self.client.open(text)], ["model.path"])
        self.write("model/config.json", (MODELS / "llama-3.1-8b" / "config.json").read_text())
        self.assertEqual(self.client.save(), [])
        self.assertTrue(self.client.change("["))
        self.client.notify("textDocument/didClose", textDocument=self.client.document)
        self.assertEqual(self.client.published(), [])
        answer = self.client.answer("textDocument/hover", textDocument=self.client.document,
                                    position={"line": 0, "character": 0})
        self.assertEqual(answer["error"]["code"], INVALID_PARAMS)

    def test_every_plan_of_the_repository_is_fine(self):
        for path in sorted((SOURCE / "plans").glob("*.toml")):
            with self.subTest(path.name):
                self.client.document = {"uri": path.as_uri()}
                wanted = run_tool("am-plan", "check", path, "--json").json["plans"][0]["diagnostics"]
                self.assertEqual([each["code"] for each in self.client.open(path.read_text())],
                                 [item["rule"] for item in wanted])

    # ---- hover ----------------------------------------------------------------------------------

    def test_hover_explains_keys_sections_and_rules(self):
        self.client.open(self.text("[mesh]\nworld_size = 6\ntp_size = 3 # three\n\n[strategy]\nnmae = 1\n"))
        self.assertEqual(self.client.hover(4, 3),
                         "**mesh.tp_size**: integer >= 1\n\nTensor parallel size.\n\nDefault: `1`")
        self.assertIn("Required", self.client.hover(1, 1))
        value = self.client.hover(4, 10)
        self.assertIn("**mesh.tp_size**", value)
        self.assertIn("**tp.heads**", value)
        self.assertIn(self.json("explain", "tp.heads")["explain"], value)
        self.assertTrue(self.client.hover(2, 2).startswith("**[mesh]**"))
        self.assertIn("**plan.key**", self.client.hover(7, 1))
        for line, character in ((4, 15), (5, 0), (99, 99)):
            self.assertIsNone(self.client.hover(line, character))

    def test_hover_knows_the_strategy(self):
        keys = {"fsdp2": "reshard_after_forward", "megatron_fsdp": "zero_dp_strategy"}
        self.client.open("")
        for name, own in keys.items():
            for key in keys.values():
                self.client.change(f'[strategy]\nname = "{name}"\n{key} = \nactivation_checkpointing = ')
                shown = self.client.hover(2, 0)
                self.assertEqual(shown is not None and key in shown, key == own, (name, key))

    # ---- completion -----------------------------------------------------------------------------

    def complete(self, before, after=""):
        """Returns the completions offered between two parts of a document, as {label: the completed document}."""
        self.client.open(before + after)
        line = before.count("\n")
        items = self.client.at("completion", line, units(before.split("\n")[-1]))
        return {item["label"]: edited(before + after, item["textEdit"]) for item in items}

    def test_values_complete_in_and_out_of_quotes(self):
        for written in ("", " ", ' "', ' "h1'):
            items = self.complete("[cluster]\ngpu =" + written)
            self.assertEqual(items["h100-sxm"], '[cluster]\ngpu = "h100-sxm"')
        self.assertEqual(self.complete("[cluster]\ngpu = '")["h100-sxm"], "[cluster]\ngpu = 'h100-sxm'")
        self.assertEqual(self.complete('[cluster]\ngpu = "', '"')["h100-sxm"], '[cluster]\ngpu = "h100-sxm"')
        self.assertIn("torchtitan", self.complete('[cluster]\nimplementation = "'))
        self.assertIn("llama-3.1-8b", self.complete('[model]\npath = "'))
        self.assertEqual(list(self.complete("[lora]\nuse_dora = ")), ["true", "false"])
        self.assertEqual(self.complete("lora.use_dora = t")["true"], "lora.use_dora = true")
        self.assertIn("fsdp2", self.complete('[strategy]\nname = "'))
        self.assertEqual(self.complete("[train]\nseq_len = "), {})
        self.assertEqual(self.complete("[cluster]\ngpu = # "), {})

    def test_items_of_arrays_complete(self):
        head = '[strategy]\nname = "megatron"\nrecompute_modules = '
        self.assertEqual(self.complete(head), {})
        for written in ("[", '["', '["mlp", ', '["mlp", "'):
            items = self.complete(head + written, "]")
            self.assertEqual(items["core_attn"], head + written.rstrip('"') + '"core_attn"]')

    def test_keys_complete_in_their_section(self):
        items = self.complete("[mesh]\nworld_size = 8\ntp", "\n[train]\nseq_len = 1\n")
        self.assertEqual(items["tp_size"], "[mesh]\nworld_size = 8\ntp_size = \n[train]\nseq_len = 1\n")
        self.assertNotIn("world_size", items)
        self.assertNotIn("seq_len", items)
        self.assertEqual(self.complete("[mesh]\ntp", " = 8")["tp_size"], "[mesh]\ntp_size = 8")
        item = next(each for each in self.client.at("completion", 1, 0) if each["label"] == "tp_size")
        self.assertEqual((item["detail"], item["documentation"]["value"]), ("integer >= 1", "Tensor parallel size."))
        self.assertEqual(self.complete(""), {})
        self.assertEqual(self.complete("[mesh]\n# tp"), {})

    def test_keys_are_those_of_the_strategy(self):
        own = {"fsdp2": "reshard_after_forward", "megatron_fsdp": "zero_dp_strategy"}
        for name, key in own.items():
            items = self.complete(f'[strategy]\nname = "{name}"\n')
            self.assertEqual([each for each in own.values() if each in items], [key])
        self.assertIn(own["fsdp2"], self.complete("[strategy]\n"))

    def test_sections_complete(self):
        items = self.complete("[model]\n[me", "\n[train]\n")
        self.assertEqual(items["mesh"], "[model]\n[mesh]\n[train]\n")
        self.assertEqual(set(items) & {"model", "train"}, set())
        self.assertEqual(self.complete("[", "]")["mesh"], "[mesh]")

    # ---- quick fixes ----------------------------------------------------------------------------

    def fixes(self, text):
        """Returns the actions for all lines as {title: text after the edit}."""
        self.client.open(text)
        actions = self.client.actions(0, text.count("\n"))
        for action in actions:
            self.assertEqual(action["kind"], "quickfix")
            self.assertTrue(action["diagnostics"])
            self.assertEqual(list(action["edit"]["changes"]), [self.client.document["uri"]])
        changes = {each["title"]: each["edit"]["changes"][self.client.document["uri"]] for each in actions}
        self.assertEqual(len(changes), len(actions))
        return {title: edited(text, edits[0]) for title, edits in changes.items()}

    def test_a_fix_makes_the_plan_pass(self):
        for text, titles in [
                ("[mesh]\nworld_size = 6\ntp_size = 3 # three\n", ["Set tp_size = 1", "Set tp_size = 2"]),
                ("[mesh]\nworld_size = 16\ntp_size = 2\n[train]\nglobal_batch_size = 17\n",
                 ["Set global_batch_size = 16", "Set global_batch_size = 24"]),
                ("[mesh]\nworld_size = 8\ntp_siz = 2\n", ["Change to tp_size"]),
                ("[mesh]\nworld_size = 8\ntensor_parallel_size = 2\n", ["Change to tp_size"]),
                ("[mehs]\nworld_size = 8\n", ["Change to mesh"]),
                ('[mesh]\nworld_size = 8\n[strategy]\nname = "fsdp"\n', ["Change to fsdp2"]),
                ("[mesh]\nworld_size = 8\n[strategy]\nzero_dp_strategy = 3\n",
                 ['Set strategy.name = "megatron_fsdp"'])]:
            with self.subTest(text):
                fixes = self.fixes(self.text(text))
                self.assertEqual(list(fixes), titles)
                for title, mended in fixes.items():
                    self.assertTrue(self.judged(mended)["ok"], (title, mended))
                    self.assertNotIn("\n\n\n", mended)
        fixes = self.fixes(self.text("[mesh]\nworld_size = 6\ntp_size = 3 # three\n"))
        self.assertIn("\ntp_size = 2 # three\n", fixes["Set tp_size = 2"])

    def test_a_fix_adds_the_key_or_section_that_is_missing(self):
        needs = "enable_async_tensor_parallel = true\n"
        plan = self.text("[mesh]\nworld_size = 8\ntp_size = 2\n[cluster]\nimplementation = \"torchtitan\"\n")
        title = "Set sequence_parallel = true"
        below = self.fixes(plan + "[strategy] # é\n" + needs)[title]
        self.assertIn("[strategy] # é\nsequence_parallel = true\n" + needs, below)
        self.assertEqual(self.judged(below)["diagnostics"], [])
        # A document that sets strategy.KEY as a dotted key cannot have a section [strategy] too.
        self.assertEqual(self.fixes("strategy." + needs + plan), {})
        uneven = self.text("[mesh]\nworld_size = 10\npp_size = 5 # é")
        self.assertEqual(self.fixes(uneven)['Set balance = "cost"'], uneven + '\n\n[pipeline]\nbalance = "cost"\n')

    def test_what_is_not_certain_is_not_offered(self):
        for text in [
                "[mesh]\nworld_size = 8\n[data]\nkind = \"text\"\npath = \"absent\"\n",  # the help names no value
                "[mesh]\nworld_size = 8\ntp_siz = 3\ntp_size = 2\n",  # the key is set already
                "[mesh]\nworld_size = 8\nseq_len = 3\n",  # a key of another section
                "[mesh]\nworld_size = 8\n[train]\ntensor_parallel_size = 2\n",  # likewise
                "[mesh]\nworld_size = 8\n[strategy]\nzero_dp_strategy = 3\nreshard_after_forward = true\n"]:
            with self.subTest(text):
                self.assertEqual(self.fixes(self.text(text)), {})
                self.assertTrue(self.judged(self.text(text))["diagnostics"])
        inline = self.text("").replace("[model]", "mesh = {world_size = 6, tp_size = 3}\n[model]")
        self.assertEqual(self.fixes(inline), {})

    def test_actions_are_those_of_the_lines_and_kinds_that_are_asked_for(self):
        self.client.open(self.text("[mesh]\nworld_size = 6\ntp_size = 3\n"))
        self.assertEqual(len(self.client.actions(4, 4)), 2)
        self.assertEqual(len(self.client.actions(4, 4, only=["quickfix"])), 2)
        self.assertEqual(self.client.actions(4, 4, only=["refactor"]), [])
        self.assertEqual(self.client.actions(0, 3), [])
        self.assertGreaterEqual(len(self.client.actions(4, 4)[0]["diagnostics"]), 2)

    # ---- the protocol ---------------------------------------------------------------------------

    def test_capabilities(self):
        self.assertEqual(self.capabilities["textDocumentSync"]["change"], 1)
        self.assertEqual(self.capabilities["positionEncoding"], "utf-16")
        self.assertEqual(self.capabilities["codeActionProvider"]["codeActionKinds"], ["quickfix"])
        self.assertIn('"', self.capabilities["completionProvider"]["triggerCharacters"])
        self.assertTrue(self.capabilities["hoverProvider"])

    def code(self, message):
        """Sends a message, and returns the code of the error that answers it."""
        self.client.send(frame(message))
        return self.client.receive()["error"]["code"]

    def test_wrong_messages_are_answered_and_the_server_goes_on(self):
        self.assertEqual(self.client.answer("textDocument/rename")["error"]["code"], METHOD_NOT_FOUND)
        self.assertEqual(self.client.answer("textDocument/hover")["error"]["code"], INVALID_PARAMS)
        self.client.notify("$/unknown")
        self.client.notify("textDocument/didChange", textDocument=3)
        self.client.notify("textDocument/didClose", textDocument={"uri": "file:///absent"})
        for text in ('{"jsonrpc": ', b"\xff", "", "[" * 5000):
            self.assertEqual(self.code(text), PARSE_ERROR)
        for text in ("[]", "3", '{"id": 1, "method": 7}'):
            self.assertEqual(self.code(text), INVALID_REQUEST)
        self.client.send(frame('{"jsonrpc": "2.0", "id": 1, "result": null}'))
        self.assertEqual(self.client.open(self.text(GOOD)), [])
        for position in ({"line": 1e300, "character": 0}, {"line": "1"}, None):
            answer = self.client.answer("textDocument/hover", textDocument=self.client.document, position=position)
            self.assertEqual(answer["error"]["code"], INVALID_PARAMS)
        for line, character in ((-5, -5), (2**40, 2**40), (0, 2**40)):
            self.client.at("hover", line, character)
            self.client.at("completion", line, character)

    def test_headers_may_have_other_fields(self):
        body = json.dumps({"jsonrpc": "2.0", "id": "x", "method": "absent"}).encode()
        self.client.send(b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n"
                         b"content-length: %d\r\n\r\n%s" % (len(body), body))
        self.assertEqual(self.client.receive()["id"], "x")

    def test_wrong_frames_end_the_server(self):
        for data, said in [(b"Content-Length: -5\r\n\r\n", "-5"),
                           (b"Content-Length: 99999999999999999999999\r\n\r\n", "64 MiB"),
                           (b"Content-Length: 67108865\r\n\r\n", "64 MiB"),
                           (b"Content-Length: 3x\r\n\r\n", "3x"),
                           (b"Content-Type: x\r\n\r\n", "no header Content-Length"),
                           (b"\r\n", "no header Content-Length"),
                           (b"x" * 100000, "too long"),
                           (b"Content-Length: 5\r\n", "ends inside the header"),
                           (b"Content-Length: 5\r\n\r\n{}", "ends inside a message")]:
            with self.subTest(data[:40]):
                status, out, err = self.start().end(data)
                self.assertEqual((status, out), (2, b""))
                self.assertIn(said, err)
                self.assertEqual(len(err.splitlines()), 2, err)

    def test_the_exit_status_tells_whether_the_client_shut_down(self):
        self.assertIsNone(self.client.request("shutdown"))
        self.assertEqual(self.client.answer("shutdown")["error"]["code"], INVALID_REQUEST)
        self.client.notify("exit")
        self.assertEqual(self.client.process.wait(timeout=60), 0)
        early = self.start()
        self.assertEqual(early.answer("shutdown")["error"]["code"], NOT_INITIALIZED)
        early.notify("exit")
        self.assertEqual(early.process.wait(timeout=60), 1)
        status, out, err = self.start().end()
        self.assertEqual((status, out), (1, b""))
        self.assertIn("without the notification exit", err)


if __name__ == "__main__":
    unittest.main()
