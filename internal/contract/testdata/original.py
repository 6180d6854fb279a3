# The handlers of original_test.go for the original implementation. Each call is a line of the file CALLS.
import os

import kopf

NOT_YET = 3  # the delay of whatever fails, in seconds: long enough to start another operator meanwhile


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False
    settings.scanning.disabled = True
    persistence = settings.persistence
    if os.environ['STORAGE'] == 'prefix':
        persistence.finalizer = 'my-op.example.com/finalizer'
        persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix='my-op.example.com')
        persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix='my-op.example.com')
    if os.environ['STORAGE'] == 'status':
        persistence.progress_storage = kopf.StatusProgressStorage()
        persistence.diffbase_storage = kopf.StatusDiffBaseStorage()


def note(name, reason, retry):
    with open(os.environ['CALLS'], 'a') as calls:
        calls.write(f'{name} {reason} {retry}\n')


def fail(retry, attempts, text):
    if retry < attempts:
        raise kopf.TemporaryError(text, delay=NOT_YET)


@kopf.on.create('kopfexamples', id='create_1')
def create_1(reason, retry, **_):
    note('create_1', reason, retry)
    return {'by': 'create_1'}


@kopf.on.create('kopfexamples', id='create_2')
def create_2(reason, retry, **_):
    note('create_2', reason, retry)
    fail(retry, 4, 'not yet, né')


@kopf.on.create('kopfexamples', id='create_the_whole_universe_from_scratch_in_six_days')
def universe(reason, **_):
    @kopf.subhandler(id='item1')
    def item1(retry, **_):
        note('item1', reason, retry)
        return 'ITEM1'

    @kopf.subhandler(id='item2')
    def item2(retry, **_):
        note('item2', reason, retry)
        fail(retry, 3, 'not this one')
        return 'ITEM2'


@kopf.on.resume('kopfexamples', id='resume_1')
def resume_1(reason, retry, **_):
    note('resume_1', reason, retry)


@kopf.on.update('kopfexamples', id='update_1')
def update_1(reason, retry, **_):
    note('update_1', reason, retry)


@kopf.on.update('kopfexamples', id='update_2')
def update_2(reason, retry, **_):
    note('update_2', reason, retry)
    fail(retry, 3, 'not updated')


@kopf.on.delete('kopfexamples', id='delete_1')
def delete_1(reason, retry, **_):
    note('delete_1', reason, retry)


@kopf.on.delete('kopfexamples', id='delete_2')
def delete_2(reason, retry, **_):
    note('delete_2', reason, retry)
    fail(retry, 3, 'not deleted')


kopf.configure(verbose=True)
kopf.run(standalone=True, namespaces=[os.environ['NAMESPACE']])
