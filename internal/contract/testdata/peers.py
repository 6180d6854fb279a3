# The original for yielding_test.go: with arguments, its command line, else an operator that notes the objects that it handles.
import os
import sys
import kopf
import kopf.cli
from kopf._core.actions.loggers import LogFormat


@kopf.on.startup()
def configure(settings, **_):
    settings.peering.priority = int(os.environ['PRIORITY'])
    settings.peering.lifetime = 10
    settings.posting.enabled = False


@kopf.on.create('kopf.dev', 'v1', 'kopfexamples')
def create(name, **_):
    with open(os.environ['CALLS'], 'a') as f:
        f.write(name + '\n')


if __name__ == '__main__':
    if len(sys.argv) > 1:
        LogFormat.casefold = lambda self: self.name.casefold()  # older versions of click ask for it
        kopf.cli.main()
    kopf.run(namespaces=[os.environ['NAMESPACE']], identity='theirs')
